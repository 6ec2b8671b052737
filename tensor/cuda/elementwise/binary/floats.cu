#include "tensor/cuda/elementwise/binary/binary.cuh"

namespace tessera::kernels::cuda {

template LoopKernel binary_kernel<double>(BinaryOp, bool);
template LoopKernel binary_kernel<float>(BinaryOp, bool);
template LoopKernel binary_kernel<bfloat16>(BinaryOp, bool);
template LoopKernel binary_kernel<float16>(BinaryOp, bool);

}  // namespace tessera::kernels::cuda
