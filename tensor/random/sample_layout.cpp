#include "tensor/random/sample_layout.h"

#include <algorithm>

#include "tensor/error.h"

namespace tessera {
namespace {

using Kind = SampleLayout::Kind;
constexpr SampleLayout unknown{.kind = Kind::unknown};

constexpr const char* advice =
    "; give their layout in nn::DropoutOptions or in the call: samples_along(1) for (T, B, C), "
    "samples_along(0, T) for (B T, C), samples_along(0, 1, T) for (T B, C), no_samples() where all samples "
    "share one mask";

int64_t product(const Shape& shape, int first, int last) {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n *= shape[i];
  return n;
}

}  // namespace

int64_t count_samples(const SampleLayout& layout, const Shape& shape) {
  if (layout.kind == Kind::none) return 1;
  if (layout.kind != Kind::along) return shape.ndim() == 0 ? 1 : shape[0];
  require<ShapeError>(layout.dim >= -shape.ndim() && layout.dim < shape.ndim(), "samples along dimension ",
                      layout.dim, " of ", shape, ": expected a dimension of the tensor");
  const int64_t size = shape[layout.dim < 0 ? layout.dim + shape.ndim() : layout.dim];
  if (layout.outer == 1 && layout.inner == 1) return size;
  require<ShapeError>(layout.outer >= 1 && layout.inner >= 1 && size % (layout.outer * layout.inner) == 0,
                      "samples along dimension ", layout.dim, " of ", shape, ": ", size,
                      " does not consist of ", layout.outer, " x samples x ", layout.inner);
  return size / (layout.outer * layout.inner);
}

SampleLayout resolve_samples(const char* where, const SampleLayout& layout, const Shape& shape,
                             int64_t samples) {
  if (layout.kind == Kind::none) return layout;
  require<ValueError>(layout.kind != Kind::unknown || samples == 0, where, ": x ", shape,
                      " was computed from ", samples, " samples along another dimension", advice);
  const int64_t count = count_samples(layout, shape);
  require<ValueError>(samples == 0 || count == samples, where, ": x ", shape, " holds ", count,
                      " samples along dimension ", layout.dim, ", the random context has ", samples, advice);
  if (shape.ndim() == 0) return no_samples();
  if (layout.kind != Kind::along) return samples_along(0);
  SampleLayout resolved = layout;
  if (resolved.dim < 0) resolved.dim += shape.ndim();
  return resolved;
}

SampleLayout permuted(const SampleLayout& layout, const Shape& order) {
  if (layout.kind != Kind::along) return layout;
  SampleLayout result = layout;
  result.dim = static_cast<int>(std::find(order.begin(), order.end(), layout.dim) - order.begin());
  return result;
}

SampleLayout reduced(const SampleLayout& layout, const Shape& from, const Shape& axes, bool keepdim) {
  if (layout.kind != Kind::along) return layout;
  SampleLayout result = layout;
  for (int i = 0; i < from.ndim(); ++i) {
    const auto is_i = [&](int64_t axis) { return normalize_dim(axis, from.ndim(), "reduction") == i; };
    if (!axes.empty() && std::none_of(axes.begin(), axes.end(), is_i)) continue;
    if (i == layout.dim) return unknown;
    if (i < layout.dim && !keepdim) --result.dim;
  }
  return result;
}

SampleLayout reshaped(const SampleLayout& layout, const Shape& from, const Shape& to) {
  if (layout.kind != Kind::along || from.numel() == 0) return layout.kind == Kind::along ? unknown : layout;
  if (layout.dim == 0 && layout.outer == 1 && to.ndim() > 0 && to[0] > 1) {
    // The usual case, without the loop's divisions: a batch in dimension 0 can only stay there.
    const int64_t elements = to.numel();
    const int64_t inner = elements / from[0] * layout.inner, below = elements / to[0];
    return inner % below == 0 ? samples_along(0, inner / below) : unknown;
  }
  const int64_t below_dim = product(from, layout.dim + 1, from.ndim());
  const int64_t inner = layout.inner * below_dim;                           // one sample's elements
  const int64_t all_samples = from[layout.dim] * below_dim / layout.outer;  // that lie together
  SampleLayout result = unknown;
  int64_t below = 1;  // elements of one index of dimension d
  for (int d = to.ndim() - 1; d >= 0 && below <= inner; below *= to[d--]) {
    if (inner % below == 0 && to[d] * below % all_samples == 0)
      result = samples_along(d, inner / below, to[d] * below / all_samples);
  }
  return result;
}

}  // namespace tessera
