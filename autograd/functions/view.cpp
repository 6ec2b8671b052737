#include "autograd/functions/view.h"

#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/record.h"
#include "autograd/views/sample_layout.h"

namespace tessera {
namespace {

/// The gradient of a slice: zeros of `shape` with `x` at start, start + step, ... of `dim`.
Variable place_slice(const Variable& x, const Shape& shape, int64_t dim, int64_t start, int64_t step) {
  const Tensor full = Tensor::zeros(shape, x.dtype(), x.device());
  const int64_t end = start + (x.size(dim) - 1) * step + 1;
  if (x.numel() > 0 && !full.is_meta()) full.slice(dim, start, end, step).copy_from(x.value());
  return record("place_slice", full, {x}, saved(),
                [=](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {slice(dy[0], dim, start, end, step)};
                });
}

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  const Tensor y = x.value().reshape(shape);
  const auto rule = [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
    return {reshape(dy[0], from)};
  };
  const Variable result = y.shares_storage(x.value()) ? record_view("reshape", y, x, rule)
                                                      : record("reshape", y, {x}, saved(), rule);
  detail::set_layout_after_reshape(x, result);
  return result;
}

Variable view(const Variable& x, const Shape& shape) {
  const Variable y = record_view("view", x.value().view(shape), x,
                                 [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                                   return {reshape(dy[0], from)};
                                 });
  detail::set_layout_after_reshape(x, y);
  return y;
}

Variable flatten(const Variable& x, int64_t start, int64_t end) {
  start = normalize_dim(start, x.ndim(), "flatten");
  end = normalize_dim(end, x.ndim(), "flatten");
  require<IndexError>(start <= end, "flatten: dimensions ", start, " to ", end, " of ", x.shape(),
                      " are out of order");
  Shape shape;
  int64_t joined = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < start || i > end) {
      shape.push_back(x.shape()[i]);
      continue;
    }
    joined *= x.shape()[i];
    if (i == end) shape.push_back(joined);
  }
  return reshape(x, x.ndim() == 0 ? Shape{1} : shape);
}

Variable transpose(const Variable& x, int64_t dim0, int64_t dim1) {
  const Variable y = record_view(
      "transpose", x.value().transpose(dim0, dim1), x,
      [=](Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {transpose(dy[0], dim0, dim1)}; });
  Shape order;
  for (int i = 0; i < x.ndim(); ++i) order.push_back(i);
  std::swap(order[normalize_dim(dim0, x.ndim(), "transpose")],
            order[normalize_dim(dim1, x.ndim(), "transpose")]);
  detail::set_layout_after_permutation(x, y, order);
  return y;
}

Variable permute(const Variable& x, const Shape& order) {
  const Tensor y = x.value().permute(order);
  Shape inverse = order, forward = order;
  for (int i = 0; i < order.ndim(); ++i) {
    forward[i] = normalize_dim(order[i], order.ndim(), "permute");
    inverse[forward[i]] = i;
  }
  const Variable result =
      record_view("permute", y, x, [inverse](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {permute(dy[0], inverse)};
      });
  detail::set_layout_after_permutation(x, result, forward);
  return result;
}

Variable expand(const Variable& x, const Shape& shape) {
  const Variable y = record_view("expand", x.value().expand(shape), x,
                                 [from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                                   return {sum_to(dy[0], from)};
                                 });
  detail::set_layout_after_expand(x, y);
  return y;
}

Variable slice(const Variable& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const Tensor y = x.value().slice(dim, start, end, step);
  dim = normalize_dim(dim, x.ndim(), "slice");
  if (start < 0) start = std::max<int64_t>(0, start + x.size(dim));
  const Variable result = record_view(
      "slice", y, x, [=, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {place_slice(dy[0], from, dim, start, step)};
      });
  if (y.size(dim) != x.size(dim)) detail::set_layout_after_part(x, result, dim);
  return result;
}

Variable narrow(const Variable& x, int64_t dim, int64_t start, int64_t length) {
  const Tensor y = x.value().narrow(dim, start, length);  // checks the bounds
  dim = normalize_dim(dim, x.ndim(), "narrow");
  if (length == x.size(dim)) return x;
  const Variable result = record_view(
      "narrow", y, x, [=, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {place_slice(dy[0], from, dim, start, 1)};
      });
  detail::set_layout_after_part(x, result, dim);
  return result;
}

Variable select(const Variable& x, int64_t dim, int64_t i) {
  const Tensor y = x.value().select(dim, i);
  dim = normalize_dim(dim, x.ndim(), "select");
  const int64_t start = i < 0 ? i + x.size(dim) : i;
  const Variable result = record_view(
      "select", y, x, [=, from = x.shape()](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
        return {place_slice(unsqueeze(dy[0], dim), from, dim, start, 1)};
      });
  detail::set_layout_after_select(x, result, dim);
  return result;
}

Variable unsqueeze(const Variable& x, int64_t dim) {
  const Variable y = record_view(
      "unsqueeze", x.value().unsqueeze(dim), x,
      [dim = normalize_dim(dim, x.ndim() + 1, "unsqueeze")](
          Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {squeeze(dy[0], dim)}; });
  detail::set_layout_after_reshape(x, y);
  return y;
}

Variable squeeze(const Variable& x, int64_t dim) {
  const Variable y = record_view(
      "squeeze", x.value().squeeze(dim), x,
      [dim = normalize_dim(dim, x.ndim(), "squeeze")](
          Saved&, const Incoming& dy, const Wanted&) -> Gradients { return {unsqueeze(dy[0], dim)}; });
  detail::set_layout_after_reshape(x, y);
  return y;
}

Variable squeeze(const Variable& x) {
  return view(x, x.value().squeeze().shape());
}

Variable t(const Variable& x) {
  require<ShapeError>(x.ndim() <= 2, "t: expected at most two dimensions, got ", x,
                      "; use transpose(x, -2, -1)");
  return x.ndim() < 2 ? x : transpose(x, 0, 1);
}

}  // namespace tessera
