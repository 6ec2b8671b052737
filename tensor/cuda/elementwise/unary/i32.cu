#include "tensor/cuda/elementwise/unary/unary.cuh"

namespace tessera::kernels::cuda {

template void unary_of<int32_t>(UnaryOp, const Tensor&, const Tensor&);

}  // namespace tessera::kernels::cuda
