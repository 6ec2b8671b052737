#pragma once

#include "tensor/arguments/activation_linear.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The weights of a pre-norm block of a transformer, x + attention(norm(x)), then + mlp(norm(x)), of one
/// dtype. Linear weights are (out, in); biases may be undefined.
struct TransformerStepWeights {
  Tensor norm_1, norm_1_bias;          ///< (C), before attention
  Tensor qkv, qkv_bias;                ///< (3 C, C): queries, keys and values
  Tensor projection, projection_bias;  ///< (C, C), of the heads' results
  Tensor norm_2, norm_2_bias;          ///< (C), before the MLP
  Tensor widening, widening_bias;      ///< (F, C)
  Tensor narrowing, narrowing_bias;    ///< (C, F)
  double epsilon = 1e-5;               ///< of both norms
  Activation activation = Activation::gelu;
};

}  // namespace tessera::ops
