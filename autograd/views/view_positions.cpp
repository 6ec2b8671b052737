#include "autograd/views/view_positions.h"

#include "autograd/record.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// Zeros with the base's shape and strides.
Tensor zeros_like_base(const ViewPositions& positions, DType dtype, Device device) {
  int64_t last = 0;
  for (int i = 0; i < positions.base_shape.ndim(); ++i)
    last += (positions.base_shape[i] - 1) * positions.base_strides[i];
  const int64_t elements = positions.base_shape.numel() == 0 ? 0 : last + 1;
  return Tensor::zeros({elements}, dtype, device).as_strided(positions.base_shape, positions.base_strides, 0);
}

/// The view's positions in `full`, which has the base's strides.
Tensor view_at(const Tensor& full, const ViewPositions& positions, const Shape& shape) {
  return full.as_strided(shape, positions.strides, full.offset() + positions.offset);
}

/// A copy of `x` with the base's strides.
Tensor copy_like_base(const Tensor& x, const ViewPositions& positions) {
  Tensor copy = zeros_like_base(positions, x.dtype(), x.device());
  copy.copy_from(x);
  return copy;
}

/// The view's shape, each position once.
Shape distinct(const ViewPositions& positions) {
  Shape shape = positions.shape;
  for (int i = 0; i < shape.ndim(); ++i)
    if (positions.strides[i] == 0 && shape[i] > 1) shape[i] = 1;
  return shape;
}

}  // namespace

ViewPositions::ViewPositions(const Tensor& base, const Tensor& view)
    : base_shape(base.shape()),
      base_strides(base.strides()),
      shape(view.shape()),
      strides(view.strides()),
      offset(view.offset() - base.offset()) {}

Variable take_positions(const Variable& x, const ViewPositions& positions) {
  const Tensor& values = x.value();
  const Tensor full = values.strides() == positions.base_strides ? values : copy_like_base(values, positions);
  return record("take_positions", view_at(full, positions, positions.shape).clone(), {x}, saved(),
                [positions](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {place_at_positions(dy[0], positions)};
                });
}

Variable place_at_positions(const Variable& x, const ViewPositions& positions) {
  const Tensor full = zeros_like_base(positions, x.dtype(), x.device());
  const Shape shape = distinct(positions);
  if (x.numel() > 0) view_at(full, positions, shape).copy_from(ops::sum_to(x.value(), shape));
  return record("place_at_positions", full.contiguous(), {x}, saved(),
                [positions](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {take_positions(dy[0], positions)};
                });
}

Variable clear_positions(const Variable& x, const ViewPositions& positions) {
  const Tensor full = copy_like_base(x.value(), positions);
  view_at(full, positions, distinct(positions)).zero();
  return record("clear_positions", full.contiguous(), {x}, saved(),
                [positions](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  return {clear_positions(dy[0], positions)};
                });
}

void clear_positions_in_place(const Variable& x, const ViewPositions& positions) {
  view_at(x.value(), positions, distinct(positions)).zero();
}

}  // namespace tessera
