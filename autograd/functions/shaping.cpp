#include "autograd/functions/shaping.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/shaping.h"
#include "tensor/ops/view.h"

namespace tessera {
namespace {

std::vector<Tensor> values_of(std::span<const Variable> variables) {
  std::vector<Tensor> values;
  for (const Variable& x : variables) values.push_back(x.value());
  return values;
}

}  // namespace

Variable cat(std::span<const Variable> inputs, int64_t dim) {
  if (autocast::mixes(inputs)) [[unlikely]]
    return cat(autocast::in_widest(inputs), dim);
  const Tensor y = ops::cat(values_of(inputs), dim);
  dim = normalize_dim(dim, y.ndim(), "cat");
  std::vector<int64_t> sizes;
  for (const Variable& input : inputs) sizes.push_back(input.size(dim));
  return record("cat", y, Inputs(inputs), saved(),
                [dim, sizes](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  Gradients gradients(sizes.size());
                  int64_t start = 0;
                  for (size_t i = 0; i < sizes.size(); ++i) {
                    if (wanted[i]) gradients[i] = narrow(dy[0], dim, start, sizes[i]);
                    start += sizes[i];
                  }
                  return gradients;
                });
}

Variable cat(std::initializer_list<Variable> inputs, int64_t dim) {
  return cat(std::span<const Variable>(inputs.begin(), inputs.size()), dim);
}

Variable stack(std::span<const Variable> inputs, int64_t dim) {
  if (autocast::mixes(inputs)) [[unlikely]]
    return stack(autocast::in_widest(inputs), dim);
  const Tensor y = ops::stack(values_of(inputs), dim);
  dim = normalize_dim(dim, y.ndim(), "stack");
  const Variable result =
      record("stack", y, Inputs(inputs), saved(),
             [dim, count = inputs.size()](Saved&, const Incoming& dy, const Wanted& wanted) -> Gradients {
               Gradients gradients(count);
               for (size_t i = 0; i < count; ++i)
                 if (wanted[i]) gradients[i] = select(dy[0], dim, static_cast<int64_t>(i));
               return gradients;
             });
  detail::set_layout_after_stack(inputs, result, dim);
  return result;
}

Variable stack(std::initializer_list<Variable> inputs, int64_t dim) {
  return stack(std::span<const Variable>(inputs.begin(), inputs.size()), dim);
}

std::vector<Variable> split(const Variable& x, std::span<const int64_t> sizes, int64_t dim) {
  const std::vector<Tensor> slices = ops::split(x.value(), sizes, dim);
  std::vector<Shape> shapes;
  for (const Tensor& slice : slices) shapes.push_back(slice.shape());
  std::vector<Variable> views = record(
      "split", slices, {x}, saved(),
      [shapes, dim, dtype = x.dtype(), device = x.device()](Saved&, const Incoming& dy,
                                                            const Wanted&) -> Gradients {
        std::vector<Variable> gradients;
        for (size_t i = 0; i < shapes.size(); ++i)
          gradients.push_back(dy.defined(i) ? dy[i] : Variable(Tensor::zeros(shapes[i], dtype, device)));
        return {cat(gradients, dim)};
      });
  dim = normalize_dim(dim, x.ndim(), "split");
  for (const Variable& view : views) {
    detail::mark_as_view(view, x, ViewKind::one_of_several);
    if (view.size(dim) != x.size(dim)) detail::set_layout_after_part(x, view, dim);
  }
  return views;
}

std::vector<Variable> split(const Variable& x, std::initializer_list<int64_t> sizes, int64_t dim) {
  return split(x, std::span<const int64_t>(sizes.begin(), sizes.size()), dim);
}

std::vector<Variable> split(const Variable& x, int64_t size, int64_t dim) {
  return split(x, ops::equal_sizes(x.shape(), size, dim), dim);
}

std::vector<Variable> unbind(const Variable& x, int64_t dim) {
  const std::vector<Tensor> slices = ops::unbind(x.value(), dim);
  dim = normalize_dim(dim, x.ndim(), "unbind");
  Shape shape = x.shape();
  shape.erase(dim);
  std::vector<Variable> views =
      record("unbind", slices, {x}, saved(),
             [shape, dim, count = slices.size(), from = x.shape(), dtype = x.dtype(), device = x.device()](
                 Saved&, const Incoming& dy, const Wanted&) -> Gradients {
               if (count == 0) return {Variable(Tensor::zeros(from, dtype, device))};
               std::vector<Variable> gradients;
               for (size_t i = 0; i < count; ++i)
                 gradients.push_back(dy.defined(i) ? dy[i] : Variable(Tensor::zeros(shape, dtype, device)));
               return {stack(gradients, dim)};
             });
  for (const Variable& view : views) {
    detail::mark_as_view(view, x, ViewKind::one_of_several);
    detail::set_layout_after_select(x, view, dim);
  }
  return views;
}

std::vector<Variable> chunk(const Variable& x, int64_t chunks, int64_t dim) {
  std::vector<int64_t> sizes;
  for (const Tensor& slice : ops::chunk(x.value(), chunks, dim)) sizes.push_back(slice.size(dim));
  return split(x, sizes, dim);
}

Variable pad(const Variable& x, const Shape& before, const Shape& after, double value) {
  return record("pad", ops::pad(x.value(), before, after, value), {x}, saved(),
                [before, inside = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  Variable dx = dy[0];
                  for (int i = 0; i < inside.ndim(); ++i) dx = narrow(dx, i, before[i], inside[i]);
                  return {dx};
                });
}

Variable repeat(const Variable& x, const Shape& repeats) {
  return record("repeat", ops::repeat(x.value(), repeats), {x}, saved(),
                [repeats, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  // Dimension by dimension: (outer, repeats, rest) summed over the repeats.
                  Variable dx = dy[0];
                  const int added = repeats.ndim() - from.ndim();
                  int64_t outer = 1, rest = dx.numel();
                  for (int i = 0; i < repeats.ndim(); ++i) {
                    if (repeats[i] == 0) return {Variable(Tensor::zeros(from, dx.dtype(), dx.device()))};
                    rest /= repeats[i];
                    const Variable tiles = reshape(dx, {outer, repeats[i], rest / outer});
                    dx = sum_to(tiles, {outer, 1, rest / outer});
                    outer *= i < added ? 1 : from[i - added];
                    if (outer == 0) break;
                  }
                  return {reshape(dx, from)};
                });
}

Variable flip(const Variable& x, const Shape& dims) {
  const Variable y =
      record("flip", ops::flip(x.value(), dims), {x}, saved(),
             [dims](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {flip(dy[0], dims)}; });
  for (const int64_t dim : dims) detail::set_layout_after_reordering(x, y, dim);
  return y;
}

Variable roll(const Variable& x, int64_t shift, int64_t dim) {
  const Variable y = record(
      "roll", ops::roll(x.value(), shift, dim), {x}, saved(),
      [=](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {roll(dy[0], -shift, dim)}; });
  detail::set_layout_after_reordering(x, y, dim);
  return y;
}

Variable tril(const Variable& x, int64_t diagonal) {
  return record(
      "tril", ops::tril(x.value(), diagonal), {x}, saved(),
      [=](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {tril(dy[0], diagonal)}; });
}

Variable triu(const Variable& x, int64_t diagonal) {
  return record(
      "triu", ops::triu(x.value(), diagonal), {x}, saved(),
      [=](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {triu(dy[0], diagonal)}; });
}

}  // namespace tessera
