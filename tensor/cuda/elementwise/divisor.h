#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Integer division by 0 is a ValueError, naming `where`, when the host next waits for the device
/// (tensor/cuda/runtime/late_errors.h); until then such quotients are 0.
void check_divisor(const char* where, const Tensor& divisor);

}  // namespace tessera::kernels::cuda
