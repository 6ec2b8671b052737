#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tessera {

/// An activation function that a linear layer applies to its input.
enum class Activation : uint8_t { gelu, gelu_tanh, relu, silu };

namespace ops {

/// The gradients of `activation_linear`; an undefined one is not computed.
struct ActivationLinearGradients {
  Tensor x;       ///< x's shape and dtype, contiguous; x itself if `activation_linear_overwrites`
  Tensor weight;  ///< the weight's shape, its dtype or f32
  bool add_to_weight = false;  ///< add to what `weight` holds
};

}  // namespace ops
}  // namespace tessera
