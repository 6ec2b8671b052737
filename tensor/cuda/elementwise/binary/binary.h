#pragma once  // internal

#include "tensor/cuda/elementwise/launch_loop.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cuda {

/// The functor of an operation with a scalar operand, of the type in which T's elements are computed.
template <class A>
struct ScalarOperand {
  A scalar;
  bool scalar_first;
};

/// The kernel of op on elements of T. Of two tensors it takes an empty functor, of a tensor and a scalar a
/// ScalarOperand. Its function is null where there is none: bool has comparisons and the bitwise operations.
/// @{
template <class T>
LoopKernel binary_kernel(BinaryOp op, bool with_scalar);
extern template LoopKernel binary_kernel<double>(BinaryOp, bool);
extern template LoopKernel binary_kernel<float>(BinaryOp, bool);
extern template LoopKernel binary_kernel<bfloat16>(BinaryOp, bool);
extern template LoopKernel binary_kernel<float16>(BinaryOp, bool);
extern template LoopKernel binary_kernel<int64_t>(BinaryOp, bool);
extern template LoopKernel binary_kernel<int32_t>(BinaryOp, bool);
extern template LoopKernel binary_kernel<uint8_t>(BinaryOp, bool);
extern template LoopKernel binary_kernel<bool>(BinaryOp, bool);
/// @}

}  // namespace tessera::kernels::cuda
