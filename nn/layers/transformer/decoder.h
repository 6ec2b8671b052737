#pragma once

#include "nn/layers/containers.h"
#include "nn/layers/transformer/feed_forward.h"

namespace tessera::nn {

/// What a call of TransformerDecoderLayer and TransformerDecoder takes besides tgt and memory; as of
/// MultiheadAttention. Legend: T targets, S positions of the memory.
struct TransformerDecoderArguments {
  Variable tgt_mask = {};               ///< (T, T) or (B H, T, T)
  Variable memory_mask = {};            ///< (T, S) or (B H, T, S)
  Tensor tgt_key_padding_mask = {};     ///< (B, T)
  Tensor memory_key_padding_mask = {};  ///< (B, S)
  bool tgt_is_causal = false;           ///< a target sees no later ones
  bool memory_is_causal = false;        ///< the same of the memory

  /// Calls `visit(mask)` for both masks that may have gradients.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(tgt_mask);
    visit(memory_mask);
  }
};

/// A layer of a transformer's decoder (Vaswani et al. 2017), with the parameters and names of PyTorch's
/// nn.TransformerDecoderLayer: attention of the targets to themselves, attention to the memory, and the
/// feed-forward block, each added and normalised as in TransformerEncoderLayer.
struct TransformerDecoderLayer : Layer<TransformerDecoderLayer, TransformerLayerOptions> {
  /// Of the targets to themselves, and to the memory.
  /// @{
  MultiheadAttention& self_attn = add<MultiheadAttention>("self_attn", o.attention());
  MultiheadAttention& multihead_attn = add<MultiheadAttention>("multihead_attn", o.attention());
  /// @}
  /// The feed-forward block: C -> dim_feedforward, activation, dropout, and back.
  /// @{
  Linear& linear1 = add<Linear>("linear1", o.widening());
  Dropout& dropout = add<Dropout>("dropout", o.dropout);
  Linear& linear2 = add<Linear>("linear2", o.narrowing());
  /// @}
  /// Of the three branches, in order.
  /// @{
  LayerNorm& norm1 = add<LayerNorm>("norm1", o.norm());
  LayerNorm& norm2 = add<LayerNorm>("norm2", o.norm());
  LayerNorm& norm3 = add<LayerNorm>("norm3", o.norm());
  Dropout& dropout1 = add<Dropout>("dropout1", o.dropout);
  Dropout& dropout2 = add<Dropout>("dropout2", o.dropout);
  Dropout& dropout3 = add<Dropout>("dropout3", o.dropout);
  /// @}

  /// Throws ConfigError as MultiheadAttention, and for sizes below 1.
  explicit TransformerDecoderLayer(Options options) : Layer(checked(std::move(options))) {}
  std::string describe_options() const override { return o.description(); }
  /// tgt (T, B, C) and memory (S, B, C), with `batch_first` (B, T, C) and (B, S, C), to the shape of tgt.
  /// Throws ShapeError as MultiheadAttention.
  Variable forward(const Variable& tgt, const Variable& memory,
                   const TransformerDecoderArguments& arguments = {}) const;
};

/// Options of TransformerDecoder.
struct TransformerDecoderOptions {
  TransformerLayerOptions layer;  ///< of every layer
  int64_t num_layers = 1;         ///< at least 1
  bool norm = false;              ///< a LayerNorm after the last layer
};

/// Decoder layers one after another, each with values of its own, and a norm where asked for.
struct TransformerDecoder : Layer<TransformerDecoder, TransformerDecoderOptions> {
  ModuleList<TransformerDecoderLayer>& layers =
      add<ModuleList<TransformerDecoderLayer>>("layers");                        ///< from the input on
  LayerNorm* norm = o.norm ? &add<LayerNorm>("norm", o.layer.norm()) : nullptr;  ///< null for none

  /// Throws ConfigError for less than one layer, else as TransformerDecoderLayer.
  explicit TransformerDecoder(Options options);
  /// As TransformerDecoderLayer; memory and masks hold for every layer.
  Variable forward(const Variable& tgt, const Variable& memory,
                   const TransformerDecoderArguments& arguments = {}) const;
};

}  // namespace tessera::nn
