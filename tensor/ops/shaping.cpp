#include "tensor/ops/shaping.h"

#include <algorithm>

#include "tensor/cpu/shaping.h"
#include "tensor/ops/cast.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor& x, unsigned dims, const Tensor& out)> flip_kernel{
    "flip", &kernels::cpu::flip, nullptr};
constexpr Kernel<void(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out)> triangle_kernel{
    "triangle", &kernels::cpu::triangle, nullptr};

Tensor triangle(const char* where, const Tensor& x, int64_t diagonal, bool lower) {
  common_device(where, {&x});
  require<ShapeError>(x.rank() >= 2, where, ": expected at least two dimensions, got ", describe(x));
  const Tensor out = Tensor::empty_like(x);
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));  // further out there is nothing to cut
  if (!x.is_meta()) triangle_kernel(x.device(), x.contiguous(), diagonal, lower, out);
  return out;
}

/// Copies between windows of tensors; does nothing on meta.
void place(const Tensor& part, const Tensor& window) {
  if (!window.is_meta()) window.copy_from(part);
}

}  // namespace

Tensor cat(std::span<const Tensor> parts, int64_t dim) {
  require<ValueError>(!parts.empty(), "cat: nothing to join");
  const Tensor& first = parts.front();
  Device device = common_device("cat", {&first});
  require<ShapeError>(first.rank() > 0, "cat: 0-dim tensors have no dimension to join along; use stack");
  dim = normalize_dim(dim, first.rank(), "cat");
  Shape shape = first.shape();
  shape[dim] = 0;
  for (const Tensor& part : parts) {
    device = common_device("cat", {&first, &part}).is_meta() ? meta() : device;
    require_same_dtype("cat", {&first, &part});
    Shape others = part.shape();
    if (others.rank() == shape.rank()) others[dim] = shape[dim];
    require<ShapeError>(others == shape, "cat: along dimension ", dim, ", ", describe(part),
                        " does not follow ", describe(first));
    shape[dim] = add_sizes(shape[dim], part.size(dim), "cat");
  }
  const Tensor out = Tensor::empty(shape, first.dtype(), device);
  int64_t start = 0;
  for (const Tensor& part : parts) {
    place(part, out.narrow(dim, start, part.size(dim)));
    start += part.size(dim);
  }
  return out;
}

Tensor stack(std::span<const Tensor> parts, int64_t dim) {
  require<ValueError>(!parts.empty(), "stack: nothing to join");
  for (const Tensor& part : parts) common_device("stack", {&part});
  dim = normalize_dim(dim, parts.front().rank() + 1, "stack");
  std::vector<Tensor> slices;
  for (const Tensor& part : parts) {
    require<ShapeError>(part.shape() == parts.front().shape(), "stack: expected one shape, got ",
                        describe(parts.front()), " and ", describe(part));
    slices.push_back(part.unsqueeze(dim));
  }
  return cat(slices, dim);
}

std::vector<Tensor> split(const Tensor& x, std::span<const int64_t> sizes, int64_t dim) {
  common_device("split", {&x});
  dim = normalize_dim(dim, x.rank(), "split");
  int64_t total = 0;
  for (int64_t size : sizes) {
    require<ValueError>(size >= 0, "split: sizes are at least 0, got ", size);
    total = add_sizes(total, size, "split");
  }
  require<ShapeError>(x.rank() > 0 && total == x.size(dim), "split: sizes add up to ", total, ", dimension ",
                      dim, " is that of ", describe(x));
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(x.narrow(dim, start, size));
    start += size;
  }
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  common_device("chunk", {&x});
  require<ValueError>(chunks >= 1, "chunk: expected at least one chunk, got ", chunks);
  require<ShapeError>(x.rank() > 0, "chunk: a 0-dim tensor has no dimension to cut");
  dim = normalize_dim(dim, x.rank(), "chunk");
  const int64_t extent = x.size(dim), size = extent / chunks + (extent % chunks != 0);
  std::vector<Tensor> parts;
  for (int64_t start = 0; start < extent; start += size)
    parts.push_back(x.narrow(dim, start, std::min(size, extent - start)));
  if (parts.empty()) parts.push_back(x);
  return parts;
}

Tensor pad(const Tensor& x, const Shape& before, const Shape& after, double value) {
  common_device("pad", {&x});
  require<ShapeError>(before.rank() == x.rank() && after.rank() == x.rank(), "pad: ", describe(x), " takes ",
                      x.rank(), " numbers before and after, got ", before, " and ", after);
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    require<ValueError>(before[i] >= 0 && after[i] >= 0, "pad: expected numbers of at least 0, got ", before,
                        " and ", after);
    shape[i] = add_sizes(add_sizes(shape[i], before[i], "pad"), after[i], "pad");
  }
  const Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  if (out.is_meta()) return out;
  const Tensor edge = cast(Tensor::scalar(value), x.dtype()).to(x.device());
  Tensor inside = out;  // the border of each dimension is filled once, then what it encloses is narrowed
  for (int i = 0; i < x.rank(); ++i) {
    for (const Tensor& border :
         {inside.narrow(i, 0, before[i]), inside.narrow(i, before[i] + x.size(i), after[i])})
      border.copy_from(edge.expand(border.shape()));
    inside = inside.narrow(i, before[i], x.size(i));
  }
  inside.copy_from(x);
  return out;
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  common_device("repeat", {&x});
  require<ShapeError>(repeats.rank() >= x.rank(), "repeat: ", describe(x), " takes at least ", x.rank(),
                      " repeats, got ", repeats);
  Tensor tile = x;
  while (tile.rank() < repeats.rank()) tile = tile.unsqueeze(0);
  Shape shape = tile.shape();
  for (int i = 0; i < shape.rank(); ++i) {
    require<ValueError>(repeats[i] >= 0, "repeat: expected repeats of at least 0, got ", repeats);
    shape[i] = multiply_sizes(shape[i], repeats[i], "repeat");
  }
  const Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  if (out.is_meta() || out.numel() == 0) return out;
  // The first tile, then along each dimension copies of what is there.
  Tensor filled = out;
  for (int i = 0; i < shape.rank(); ++i) filled = filled.narrow(i, 0, tile.size(i));
  filled.copy_from(tile);
  for (int i = 0; i < shape.rank(); ++i) {
    Tensor row = out;
    for (int later = i + 1; later < shape.rank(); ++later) row = row.narrow(later, 0, tile.size(later));
    for (int64_t r = 1; r < repeats[i]; ++r)
      row.narrow(i, r * tile.size(i), tile.size(i)).copy_from(row.narrow(i, 0, tile.size(i)));
  }
  return out;
}

Tensor flip(const Tensor& x, const Shape& dims) {
  common_device("flip", {&x});
  unsigned reversed = 0;
  for (int64_t dim : dims) {
    dim = normalize_dim(dim, x.rank(), "flip");
    require<ValueError>(!(reversed >> dim & 1u), "flip: dimension ", dim, " stands twice in ", dims);
    reversed |= 1u << dim;
  }
  const Tensor out = Tensor::empty_like(x);
  flip_kernel(x.device(), x, reversed, out);
  return out;
}

Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  common_device("roll", {&x});
  require<ShapeError>(x.rank() > 0, "roll: a 0-dim tensor has no dimension to move along");
  dim = normalize_dim(dim, x.rank(), "roll");
  const int64_t n = x.size(dim);
  const Tensor out = Tensor::empty_like(x);
  if (n == 0) return out;
  const int64_t front = (shift % n + n) % n;  // elements that come from the end
  place(x.narrow(dim, n - front, front), out.narrow(dim, 0, front));
  place(x.narrow(dim, 0, n - front), out.narrow(dim, front, n - front));
  return out;
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return triangle("tril", x, diagonal, true);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return triangle("triu", x, diagonal, false);
}

}  // namespace tessera::ops
