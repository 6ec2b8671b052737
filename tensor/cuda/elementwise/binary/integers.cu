#include "tensor/cuda/elementwise/binary/binary.cuh"

namespace tessera::kernels::cuda {

template LoopKernel binary_kernel<int64_t>(BinaryOp, bool);
template LoopKernel binary_kernel<int32_t>(BinaryOp, bool);
template LoopKernel binary_kernel<uint8_t>(BinaryOp, bool);
template LoopKernel binary_kernel<bool>(BinaryOp, bool);

}  // namespace tessera::kernels::cuda
