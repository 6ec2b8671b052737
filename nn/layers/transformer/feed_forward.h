#pragma once

#include "nn/layers/attention/multihead_attention.h"
#include "nn/layers/dropout.h"
#include "nn/layers/normalization.h"

namespace tessera::nn {

/// Options of TransformerEncoderLayer and TransformerDecoderLayer, in PyTorch's order and with its defaults.
struct TransformerLayerOptions {
  int64_t d_model = 0;                       ///< C, features
  int64_t nhead = 1;                         ///< heads of attention, divides C
  int64_t dim_feedforward = 2048;            ///< features within the feed-forward block
  double dropout = 0.1;                      ///< of attention's weights and of every branch
  Activation activation = Activation::relu;  ///< of the feed-forward block
  double layer_norm_eps = 1e-5;              ///< added to the variance
  bool batch_first = false;                  ///< (B, T, C) instead of (T, B, C)
  bool norm_first = false;                   ///< norms before the branches instead of after the sums
  bool bias = true;                          ///< in linear layers, attention and norms
  /// Of linear layers and of attention's output projection: PyTorch's default, uniform within 1/sqrt(in).
  init::Initializer weight_init = init::kaiming_uniform(2.23606797749979);

  /// The options of the parts.
  /// @{
  MultiheadAttentionOptions attention() const;
  LinearOptions widening() const;
  LinearOptions narrowing() const;
  LayerNormOptions norm() const;
  /// @}
  /// "width 256, 8 heads, ..." for summaries.
  std::string description() const;
};

/// The options. Throws ConfigError, naming the field, for sizes below 1 or a dropout outside [0, 1).
TransformerLayerOptions checked(TransformerLayerOptions options);

namespace detail {

/// The mask of `dropout` in this call for x, which has its samples along dimension 1 unless `batch_first`.
DropoutMask branch_mask(const Dropout& dropout, const Variable& x, bool batch_first);
/// linear2(dropout(activation(linear1(x)))).
Variable feed_forward(const Variable& x, const Linear& linear1, const Dropout& dropout, const Linear& linear2,
                      const TransformerLayerOptions& options);

}  // namespace detail
}  // namespace tessera::nn
