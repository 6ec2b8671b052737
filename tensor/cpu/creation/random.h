#pragma once  // internal

#include <cstdint>

#include "tensor/arguments/distribution.h"
#include "tensor/tensor.h"

/// Random numbers on the CPU. `out` is contiguous and holds elements first_index, first_index + 1, ... of the
/// full tensor.
namespace tessera::kernels::cpu {

using ops::Distribution;

/// Fills `out`, of any dtype, with random numbers, which are computed in f64 and rounded once.
void fill_random(const Distribution& distribution, uint64_t key, int64_t first_index, const Tensor& out);

}  // namespace tessera::kernels::cpu
