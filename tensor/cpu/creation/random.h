#pragma once  // internal

#include <cstdint>

#include "tensor/tensor.h"

/// Random numbers on the CPU. `out` is contiguous and holds elements first_index, first_index + 1, ... of the
/// full tensor.
namespace tessera::kernels::cpu {

/// A distribution and its parameters (see tensor/ops/creation/random.h).
struct Distribution {
  enum class Kind : uint8_t { uniform, normal, truncated_normal, bernoulli } kind;
  double location = 0,
         scale = 1;          // low and width of a uniform, mean and deviation of a normal, the probability
  double low = 0, high = 0;  // the bounds of a truncated normal, in deviations from the mean
};

/// Fills `out`, of any dtype, with random numbers, which are computed in f64 and rounded once.
void fill_random(const Distribution& distribution, uint64_t key, int64_t first_index, const Tensor& out);

}  // namespace tessera::kernels::cpu
