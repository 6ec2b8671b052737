#pragma once

#include "nn/layers/attention/multihead_attention.h"
#include "nn/layers/containers.h"
#include "nn/layers/transformer/feed_forward.h"

namespace tessera::nn {

/// What a call of TransformerEncoderLayer and TransformerEncoder takes besides x; as of MultiheadAttention.
struct TransformerEncoderArguments {
  Variable src_mask = {};            ///< (T, T) or (B H, T, T)
  Tensor src_key_padding_mask = {};  ///< (B, T): bool, true at padding; or floating, added
  bool is_causal = false;            ///< positions see no later ones

  /// Calls `visit(src_mask)`: by this, a module's hooks see the Variable (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(src_mask);
  }
};

/// A layer of a transformer's encoder (Vaswani et al. 2017), with the parameters and names of PyTorch's
/// nn.TransformerEncoderLayer: norm1(x + attention(x)), then norm2(x + feed_forward(x)); with `norm_first`
/// x + attention(norm1(x)), then x + feed_forward(norm2(x)). Each sum, its dropout and the norm after it are
/// one pass.
struct TransformerEncoderLayer : Layer<TransformerEncoderLayer, TransformerLayerOptions> {
  MultiheadAttention& self_attn = add<MultiheadAttention>("self_attn", o.attention());  ///< of x to itself
  /// The feed-forward block: C -> dim_feedforward, activation, dropout, and back.
  /// @{
  Linear& linear1 = add<Linear>("linear1", o.widening());
  Dropout& dropout = add<Dropout>("dropout", o.dropout);
  Linear& linear2 = add<Linear>("linear2", o.narrowing());
  /// @}
  LayerNorm& norm1 = add<LayerNorm>("norm1", o.norm());     ///< of the first branch
  LayerNorm& norm2 = add<LayerNorm>("norm2", o.norm());     ///< of the second
  Dropout& dropout1 = add<Dropout>("dropout1", o.dropout);  ///< of attention's result
  Dropout& dropout2 = add<Dropout>("dropout2", o.dropout);  ///< of the feed-forward block's

  /// Throws ConfigError as MultiheadAttention, and for sizes below 1.
  explicit TransformerEncoderLayer(Options options) : Layer(checked(std::move(options))) {}
  std::string describe_options() const override { return o.description(); }
  /// src (T, B, C), or with `batch_first` (B, T, C), or (T, C), to the same shape. Throws ShapeError as
  /// MultiheadAttention.
  Variable forward(const Variable& src, const TransformerEncoderArguments& arguments = {}) const;
};

/// Options of TransformerEncoder.
struct TransformerEncoderOptions {
  TransformerLayerOptions layer;  ///< of every layer
  int64_t num_layers = 1;         ///< at least 1
  bool norm = false;              ///< a LayerNorm after the last layer
};

/// Encoder layers one after another, each with values of its own, and a norm where asked for.
struct TransformerEncoder : Layer<TransformerEncoder, TransformerEncoderOptions> {
  ModuleList<TransformerEncoderLayer>& layers =
      add<ModuleList<TransformerEncoderLayer>>("layers");                        ///< from the input on
  LayerNorm* norm = o.norm ? &add<LayerNorm>("norm", o.layer.norm()) : nullptr;  ///< null for none

  /// Throws ConfigError for less than one layer, else as TransformerEncoderLayer.
  explicit TransformerEncoder(Options options);
  /// As TransformerEncoderLayer; the masks hold for every layer.
  Variable forward(const Variable& src, const TransformerEncoderArguments& arguments = {}) const;
};

}  // namespace tessera::nn
