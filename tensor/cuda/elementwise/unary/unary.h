#pragma once  // internal

#include "tensor/cuda/elementwise/launch_loop.h"
#include "tensor/elementwise/op_lists.h"
#include "tensor/types/float_types.h"

namespace tessera::kernels::cuda {

/// The kernel of op on elements of T, with an empty functor. Its function is null where there is none.
/// @{
template <class T>
LoopKernel unary_kernel(UnaryOp op);
extern template LoopKernel unary_kernel<double>(UnaryOp);
extern template LoopKernel unary_kernel<float>(UnaryOp);
extern template LoopKernel unary_kernel<bfloat16>(UnaryOp);
extern template LoopKernel unary_kernel<float16>(UnaryOp);
extern template LoopKernel unary_kernel<int64_t>(UnaryOp);
extern template LoopKernel unary_kernel<int32_t>(UnaryOp);
extern template LoopKernel unary_kernel<uint8_t>(UnaryOp);
/// @}

}  // namespace tessera::kernels::cuda
