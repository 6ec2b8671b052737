#include "autograd/view_window.h"

#include "autograd/record.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// Zeros with the base's shape and strides.
Tensor zeros_like_base(const ViewWindow& window, DType dtype, Device device) {
  int64_t last = 0;
  for (int i = 0; i < window.base_shape.ndim(); ++i)
    last += (window.base_shape[i] - 1) * window.base_strides[i];
  const int64_t elements = window.base_shape.numel() == 0 ? 0 : last + 1;
  return Tensor::zeros({elements}, dtype, device).as_strided(window.base_shape, window.base_strides, 0);
}

/// The view's positions in `full`, which has the base's strides.
Tensor window_of(const Tensor& full, const ViewWindow& window, const Shape& shape) {
  return full.as_strided(shape, window.strides, full.offset() + window.offset);
}

/// A copy of `x` with the base's strides.
Tensor copy_like_base(const Tensor& x, const ViewWindow& window) {
  Tensor copy = zeros_like_base(window, x.dtype(), x.device());
  copy.copy_from(x);
  return copy;
}

/// The view's shape, each position once.
Shape distinct(const ViewWindow& window) {
  Shape shape = window.shape;
  for (int i = 0; i < shape.ndim(); ++i)
    if (window.strides[i] == 0 && shape[i] > 1) shape[i] = 1;
  return shape;
}

}  // namespace

ViewWindow::ViewWindow(const Tensor& base, const Tensor& view)
    : base_shape(base.shape()),
      base_strides(base.strides()),
      shape(view.shape()),
      strides(view.strides()),
      offset(view.offset() - base.offset()) {}

Variable take_window(const Variable& x, const ViewWindow& window) {
  const Tensor& values = x.value();
  const Tensor full = values.strides() == window.base_strides ? values : copy_like_base(values, window);
  return record("take_window", window_of(full, window, window.shape).clone(), {x}, saved(),
                [window](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {place_window(dy[0], window)};
                });
}

Variable place_window(const Variable& x, const ViewWindow& window) {
  const Tensor full = zeros_like_base(window, x.dtype(), x.device());
  const Shape shape = distinct(window);
  if (x.numel() > 0) window_of(full, window, shape).copy_from(ops::sum_to(x.value(), shape));
  return record("place_window", full.contiguous(), {x}, saved(),
                [window](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {take_window(dy[0], window)};
                });
}

Variable clear_window(const Variable& x, const ViewWindow& window) {
  const Tensor full = copy_like_base(x.value(), window);
  window_of(full, window, distinct(window)).zero();
  return record("clear_window", full.contiguous(), {x}, saved(),
                [window](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {clear_window(dy[0], window)};
                });
}

void clear_window_in_place(const Variable& x, const ViewWindow& window) {
  window_of(x.value(), window, distinct(window)).zero();
}

}  // namespace tessera
