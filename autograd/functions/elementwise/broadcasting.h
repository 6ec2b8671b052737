#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The sum over the axes along which `shape` was broadcast to x's shape: the gradient of an operand from that
/// of a broadcast result. x itself when the shapes are equal.
Variable sum_to(const Variable& x, const Shape& shape);

/// The same in f32 for an x of a half type when `dtype` is f32: its sums are not rounded. Any other `dtype`
/// is ignored.
Variable sum_to(const Variable& x, const Shape& shape, DType dtype);

/// x repeated by stride 0 to `shape`. Throws ShapeError when it does not broadcast. x itself when the shapes
/// are equal.
Variable broadcast_to(const Variable& x, const Shape& shape);

/// Shape and dtype of an operand before broadcasting and promotion, to which its gradient is converted.
class OperandInfo {
 public:
  /// That of `operand`, to which it keeps no reference.
  explicit OperandInfo(const Variable& operand) : shape_(operand.shape()), dtype_(operand.dtype()) {}
  /// The operand's gradient from `dy`, which has the result's shape and dtype.
  Variable gradient(const Variable& dy) const;

 private:
  Shape shape_;
  DType dtype_;
};

}  // namespace tessera
