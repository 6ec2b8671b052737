#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/distribution.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cuda {

/// Fills `out`, contiguous, of any dtype, with the random numbers that kernels::cpu::fill_random gives, to
/// the bit.
void fill_random(const ops::Distribution& distribution, uint64_t key, int64_t first_index, const Tensor& out);

}  // namespace tessera::kernels::cuda
