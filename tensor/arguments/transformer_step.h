#pragma once

#include "tensor/arguments/activation_linear.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The weights of a pre-norm block of a transformer, x + attention(norm(x)), then + mlp(norm(x)), of one
/// dtype. Linear weights are (out, in), biases may be undefined. With scales the four linear weights are the
/// values of QuantizedWeights (tensor/arguments/quantized_weight.h); either all four have scales or none has.
struct TransformerStepWeights {
  Tensor norm_1, norm_1_bias;          ///< (C), before attention
  Tensor qkv, qkv_bias;                ///< (3 C, C): queries, keys and values
  Tensor projection, projection_bias;  ///< (C, C), of the heads' results
  Tensor norm_2, norm_2_bias;          ///< (C), before the MLP
  Tensor widening, widening_bias;      ///< (F, C)
  Tensor narrowing, narrowing_bias;    ///< (C, F)
  double epsilon = 1e-5;               ///< of both norms
  Activation activation = Activation::gelu;
  /// f32, one for each row of the weight; undefined for a weight of the norms' dtype.
  /// @{
  Tensor qkv_scales = {}, projection_scales = {}, widening_scales = {}, narrowing_scales = {};
  /// @}
};

}  // namespace tessera::ops
