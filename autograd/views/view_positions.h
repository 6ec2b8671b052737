#pragma once  // internal

#include "autograd/variable.h"

namespace tessera {

/// The positions of a view's elements among those of its base. The functions below are linear and
/// differentiable. They do not read the base: arguments and results have its shape and memory of their own.
struct ViewPositions {
  /// Of the base; strides are in elements.
  /// @{
  Shape base_shape, base_strides;
  /// @}
  /// Of the view; strides are in elements.
  /// @{
  Shape shape, strides;
  /// @}
  int64_t offset = 0;  ///< of the view's first element, from the base's

  /// `view` and `base` share one storage.
  ViewPositions(const Tensor& base, const Tensor& view);
};

/// The elements of `x` (of the base's shape) at the view's positions.
Variable take_positions(const Variable& x, const ViewPositions& positions);
/// Zeros of the base's shape with `x` (of the view's shape) at the view's positions; elements that share a
/// position (`expand`) are summed.
Variable place_at_positions(const Variable& x, const ViewPositions& positions);
/// `x` (of the base's shape) with zeros at the view's positions.
Variable clear_positions(const Variable& x, const ViewPositions& positions);
/// The same, written into `x`, which has no other handle and no graph.
void clear_positions_in_place(const Variable& x, const ViewPositions& positions);

}  // namespace tessera
