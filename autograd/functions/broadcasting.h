#pragma once

#include "autograd/variable.h"

namespace tessera {

/// The sum over the axes along which `shape` was broadcast to x's shape: what an operand receives of the
/// gradient of a broadcast result. x itself when the shapes are equal.
Variable sum_to(const Variable& x, const Shape& shape);

/// The same in f32 for an x of a half type when `dtype` is f32: its sums are not rounded. Any other `dtype`
/// is passed over.
Variable sum_to(const Variable& x, const Shape& shape, DType dtype);

/// x repeated by stride 0 to `shape`. Throws ShapeError when it does not broadcast. x itself when the shapes
/// are equal.
Variable broadcast_to(const Variable& x, const Shape& shape);

/// What an operand looked like before it was broadcast and promoted: its gradient is brought back to that.
class OperandForm {
 public:
  explicit OperandForm(const Variable& operand) : shape_(operand.shape()), dtype_(operand.dtype()) {}
  /// `full`, of the result's shape and dtype, as a gradient of the operand.
  Variable gradient(const Variable& full) const;

 private:
  Shape shape_;
  DType dtype_;
};

}  // namespace tessera
