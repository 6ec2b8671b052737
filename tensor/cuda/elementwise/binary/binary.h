#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

namespace tessera::kernels::cuda {

/// The operands of a binary operation: two tensors, or a tensor and a scalar.
struct BinaryOperands {
  const Tensor& a;
  const Tensor* b = nullptr;  ///< null: `scalar`
  Scalar scalar = 0;
  bool scalar_first = false;
};

/// out = op(a, b), all computed as T.
/// @{
template <class T>
void binary_of(BinaryOp op, const BinaryOperands& operands, const Tensor& out);
extern template void binary_of<double>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<float>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<bfloat16>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<float16>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<int64_t>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<int32_t>(BinaryOp, const BinaryOperands&, const Tensor&);
extern template void binary_of<uint8_t>(BinaryOp, const BinaryOperands&, const Tensor&);
/// bool: comparisons and the bitwise operations.
extern template void binary_of<bool>(BinaryOp, const BinaryOperands&, const Tensor&);
/// @}

}  // namespace tessera::kernels::cuda
