#pragma once  // internal

#include <span>

#include "tensor/arguments/transformer_step.h"

namespace tessera::kernels::cpu {

/// As `ops::transformer_step`.
void transformer_step(const Tensor& x, const ops::TransformerStepWeights& weights, const Tensor& keys,
                      const Tensor& values, std::span<const int64_t> lengths);

}  // namespace tessera::kernels::cpu
