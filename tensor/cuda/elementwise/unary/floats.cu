#include "tensor/cuda/elementwise/unary/unary.cuh"

namespace tessera::kernels::cuda {

template LoopKernel unary_kernel<double>(UnaryOp);
template LoopKernel unary_kernel<float>(UnaryOp);
template LoopKernel unary_kernel<bfloat16>(UnaryOp);
template LoopKernel unary_kernel<float16>(UnaryOp);

}  // namespace tessera::kernels::cuda
