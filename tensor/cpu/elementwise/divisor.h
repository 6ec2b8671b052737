#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Throws ValueError, naming `where` and the element, where an integer or bool divisor of any strides has a
/// 0.
void check_divisor(const char* where, const Tensor& divisor);

}  // namespace tessera::kernels::cpu
