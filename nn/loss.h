#pragma once

#include "autograd/functions/layers/loss.h"

/// Losses as functions: `nn::cross_entropy(logits, targets)`.
namespace tessera::nn {

using tessera::bce_with_logits;
using tessera::cross_entropy;
using tessera::linear_cross_entropy;
using tessera::mse_loss;

}  // namespace tessera::nn
