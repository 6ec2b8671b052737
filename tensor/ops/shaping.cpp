#include "tensor/ops/shaping.h"

#include <algorithm>

#include "tensor/batched/rules.h"
#include "tensor/cpu/shaping.h"
#include "tensor/cuda/elementwise/shaping.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"

namespace tessera::ops {
namespace {

constexpr Kernel<void(const Tensor& x, unsigned dims, const Tensor& out)> flip_kernel{
    "flip", &kernels::cpu::flip, TESSERA_CUDA_KERNEL(kernels::cuda::flip),
    batched::one_by_one<&kernels::cpu::flip>};
constexpr Kernel<void(const Tensor& x, int64_t diagonal, bool lower, const Tensor& out)> triangle_kernel{
    "triangle", &kernels::cpu::triangle, TESSERA_CUDA_KERNEL(kernels::cuda::triangle),
    batched::one_by_one<&kernels::cpu::triangle>};

Tensor triangle(const char* where, const Tensor& x, int64_t diagonal, bool lower) {
  common_device(where, {&x});
  require<ShapeError>(x.ndim() >= 2, where, ": expected at least two dimensions, got ", describe(x));
  const Tensor out = Tensor::empty_like(x);
  diagonal = std::clamp(diagonal, -x.size(-2), x.size(-1));  // beyond these the result does not change
  if (!x.is_meta()) triangle_kernel(x.device(), x.contiguous(), diagonal, lower, out);
  return out;
}

/// Copies `source` to the view `target`; does nothing on meta.
void copy_into(const Tensor& source, const Tensor& target) {
  if (!target.is_meta()) target.copy_from(source);
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int64_t dim) {
  require<ValueError>(!tensors.empty(), "cat: expected at least one tensor, got none");
  const Tensor& first = tensors.front();
  Device device = common_device("cat", {&first});
  require<ShapeError>(first.ndim() > 0, "cat: expected at least one dimension, got 0-dim tensors; use stack");
  dim = normalize_dim(dim, first.ndim(), "cat");
  Shape shape = first.shape();
  shape[dim] = 0;
  for (const Tensor& tensor : tensors) {
    const Device both = common_device("cat", {&first, &tensor});
    if (!both.is_cpu()) device = both;
    require_same_dtype("cat", {&first, &tensor});
    Shape others = tensor.shape();
    if (others.ndim() == shape.ndim()) others[dim] = shape[dim];
    require<ShapeError>(others == shape, "cat: along dimension ", dim, ", ", describe(tensor),
                        " does not follow ", describe(first), ": the other dimensions must be equal");
    shape[dim] = add_sizes(shape[dim], tensor.size(dim), "cat");
  }
  const Tensor out = Tensor::empty(shape, first.dtype(), device);
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    copy_into(tensor, out.narrow(dim, start, tensor.size(dim)));
    start += tensor.size(dim);
  }
  return out;
}

Tensor stack(std::span<const Tensor> tensors, int64_t dim) {
  require<ValueError>(!tensors.empty(), "stack: expected at least one tensor, got none");
  for (const Tensor& tensor : tensors) common_device("stack", {&tensor});
  dim = normalize_dim(dim, tensors.front().ndim() + 1, "stack");
  std::vector<Tensor> slices;
  for (const Tensor& tensor : tensors) {
    require<ShapeError>(tensor.shape() == tensors.front().shape(), "stack: expected one shape, got ",
                        describe(tensors.front()), " and ", describe(tensor));
    slices.push_back(tensor.unsqueeze(dim));
  }
  return cat(slices, dim);
}

std::vector<Tensor> split(const Tensor& x, std::span<const int64_t> sizes, int64_t dim) {
  common_device("split", {&x});
  dim = normalize_dim(dim, x.ndim(), "split");
  int64_t total = 0;
  for (int64_t size : sizes) {
    require<ValueError>(size >= 0, "split: expected sizes of at least 0, got ", size);
    total = add_sizes(total, size, "split");
  }
  require<ShapeError>(x.ndim() > 0 && total == x.size(dim), "split: expected sizes that add up to dimension ",
                      dim, " of ", describe(x), ", got ", total);
  std::vector<Tensor> views;
  int64_t start = 0;
  for (int64_t size : sizes) {
    views.push_back(x.narrow(dim, start, size));
    start += size;
  }
  return views;
}

std::vector<int64_t> equal_sizes(const Shape& shape, int64_t size, int64_t dim) {
  require<ShapeError>(shape.ndim() > 0, "split: a 0-dim tensor has no dimension to split");
  require<ValueError>(size >= 1, "split: expected a size of at least 1, got ", size);
  const int64_t extent = shape[normalize_dim(dim, shape.ndim(), "split")];
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < extent; start += size) sizes.push_back(std::min(size, extent - start));
  if (sizes.empty()) sizes.push_back(0);  // one empty part, as in PyTorch
  return sizes;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  common_device("chunk", {&x});
  require<ValueError>(chunks >= 1, "chunk: expected at least one chunk, got ", chunks);
  require<ShapeError>(x.ndim() > 0, "chunk: expected at least one dimension, got a 0-dim tensor");
  dim = normalize_dim(dim, x.ndim(), "chunk");
  const int64_t extent = x.size(dim), size = extent / chunks + (extent % chunks != 0);
  std::vector<Tensor> views;
  for (int64_t start = 0; start < extent; start += size)
    views.push_back(x.narrow(dim, start, std::min(size, extent - start)));
  if (views.empty()) views.resize(static_cast<size_t>(chunks), x);  // as many empty ones as in PyTorch
  return views;
}

Tensor pad(const Tensor& x, const Shape& before, const Shape& after, double value) {
  common_device("pad", {&x});
  require<ShapeError>(before.ndim() == x.ndim() && after.ndim() == x.ndim(), "pad: expected ", x.ndim(),
                      " widths before and after for ", describe(x), ", got ", before, " and ", after);
  Shape shape = x.shape();
  for (int i = 0; i < x.ndim(); ++i) {
    require<ValueError>(before[i] >= 0 && after[i] >= 0, "pad: expected widths of at least 0, got ", before,
                        " and ", after);
    shape[i] = add_sizes(add_sizes(shape[i], before[i], "pad"), after[i], "pad");
  }
  const Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  if (out.is_meta()) return out;
  const Tensor edge = cast(Tensor::scalar(value), x.dtype()).to(x.device());
  Tensor inside = out;  // the border of each dimension is filled, then `inside` is narrowed to its interior
  for (int i = 0; i < x.ndim(); ++i) {
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
  require<ShapeError>(repeats.ndim() >= x.ndim(), "repeat: expected at least ", x.ndim(), " repeats for ",
                      describe(x), ", got ", repeats);
  Tensor tile = x;
  while (tile.ndim() < repeats.ndim()) tile = tile.unsqueeze(0);
  Shape shape = tile.shape();
  for (int i = 0; i < shape.ndim(); ++i) {
    require<ValueError>(repeats[i] >= 0, "repeat: expected repeats of at least 0, got ", repeats);
    shape[i] = multiply_sizes(shape[i], repeats[i], "repeat");
  }
  const Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  if (out.is_meta() || out.numel() == 0) return out;
  // x is written once, then copied along one dimension after another.
  Tensor filled = out;
  for (int i = 0; i < shape.ndim(); ++i) filled = filled.narrow(i, 0, tile.size(i));
  filled.copy_from(tile);
  for (int i = 0; i < shape.ndim(); ++i) {
    Tensor row = out;
    for (int later = i + 1; later < shape.ndim(); ++later) row = row.narrow(later, 0, tile.size(later));
    for (int64_t r = 1; r < repeats[i]; ++r)
      row.narrow(i, r * tile.size(i), tile.size(i)).copy_from(row.narrow(i, 0, tile.size(i)));
  }
  return out;
}

Tensor flip(const Tensor& x, const Shape& dims) {
  common_device("flip", {&x});
  unsigned reversed = 0;
  for (int64_t dim : dims) {
    dim = normalize_dim(dim, x.ndim(), "flip");
    require<ValueError>(!(reversed >> dim & 1u), "flip: expected different dimensions, got ", dim,
                        " twice in ", dims);
    reversed |= 1u << dim;
  }
  const Tensor out = Tensor::empty_like(x);
  flip_kernel(x.device(), x, reversed, out);
  return out;
}

Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  common_device("roll", {&x});
  require<ShapeError>(x.ndim() > 0, "roll: expected at least one dimension, got a 0-dim tensor");
  dim = normalize_dim(dim, x.ndim(), "roll");
  const int64_t n = x.size(dim);
  const Tensor out = Tensor::empty_like(x);
  if (n == 0) return out;
  const int64_t front = (shift % n + n) % n;  // elements that move from the end to the front
  copy_into(x.narrow(dim, n - front, front), out.narrow(dim, 0, front));
  copy_into(x.narrow(dim, 0, n - front), out.narrow(dim, front, n - front));
  return out;
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  return triangle("tril", x, diagonal, true);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  return triangle("triu", x, diagonal, false);
}

}  // namespace tessera::ops
