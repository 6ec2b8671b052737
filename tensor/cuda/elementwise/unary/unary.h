#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// out = op(x), computed as T.
/// @{
template <class T>
void unary_of(UnaryOp op, const Tensor& x, const Tensor& out);
extern template void unary_of<double>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<float>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<bfloat16>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<float16>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<int64_t>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<int32_t>(UnaryOp, const Tensor&, const Tensor&);
extern template void unary_of<uint8_t>(UnaryOp, const Tensor&, const Tensor&);
/// @}

}  // namespace tessera::kernels::cuda
