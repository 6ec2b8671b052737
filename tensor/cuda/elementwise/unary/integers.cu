#include "tensor/cuda/elementwise/unary/unary.cuh"

namespace tessera::kernels::cuda {

template LoopKernel unary_kernel<int64_t>(UnaryOp);
template LoopKernel unary_kernel<int32_t>(UnaryOp);
template LoopKernel unary_kernel<uint8_t>(UnaryOp);

}  // namespace tessera::kernels::cuda
