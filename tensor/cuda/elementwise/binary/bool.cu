#include "tensor/cuda/elementwise/binary/binary.cuh"

namespace tessera::kernels::cuda {

template void binary_of<bool>(BinaryOp, const BinaryOperands&, const Tensor&);

}  // namespace tessera::kernels::cuda
