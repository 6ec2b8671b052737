#pragma once

#include "nn/layers/transformer/decoder.h"
#include "nn/layers/transformer/encoder.h"

namespace tessera::nn {

/// Options of Transformer, in PyTorch's order and with its defaults.
struct TransformerOptions {
  int64_t d_model = 512;                     ///< C, features
  int64_t nhead = 8;                         ///< heads of attention, divides C
  int64_t num_encoder_layers = 6;            ///< at least 1
  int64_t num_decoder_layers = 6;            ///< at least 1
  int64_t dim_feedforward = 2048;            ///< features within the feed-forward blocks
  double dropout = 0.1;                      ///< of attention's weights and of every branch
  Activation activation = Activation::relu;  ///< of the feed-forward blocks
  double layer_norm_eps = 1e-5;              ///< added to the variance
  bool batch_first = false;                  ///< (B, T, C) instead of (T, B, C)
  bool norm_first = false;                   ///< norms before the branches instead of after the sums
  bool bias = true;                          ///< in linear layers, attention and norms

  /// Those of a layer; weights of two dimensions start as Xavier's, as in PyTorch.
  TransformerLayerOptions layer() const;
};

/// What a call of Transformer takes besides src and tgt; as of its encoder and decoder.
struct TransformerArguments {
  /// Masks of scores, by the name of the queries' sequence.
  /// @{
  Variable src_mask = {}, tgt_mask = {}, memory_mask = {};
  /// @}
  /// Masks of keys.
  /// @{
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  /// @}
  /// Whether positions see no later ones.
  /// @{
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
  /// @}

  /// Calls `visit(mask)` for the masks that may have gradients.
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(src_mask);
    visit(tgt_mask);
    visit(memory_mask);
  }
};

/// The transformer of Vaswani et al. (2017) with the parameters and names of PyTorch's nn.Transformer: an
/// encoder and a decoder, each with a norm at its end.
struct Transformer : Layer<Transformer, TransformerOptions> {
  /// Of the source.
  TransformerEncoder& encoder = add<TransformerEncoder>(
      "encoder", {.layer = o.layer(), .num_layers = o.num_encoder_layers, .norm = true});
  /// Of the targets.
  TransformerDecoder& decoder = add<TransformerDecoder>(
      "decoder", {.layer = o.layer(), .num_layers = o.num_decoder_layers, .norm = true});

  /// Throws ConfigError as the layers.
  explicit Transformer(Options options = {}) : Layer(options) {}
  /// src (S, B, C) and tgt (T, B, C), with `batch_first` (B, S, C) and (B, T, C), to the shape of tgt. Throws
  /// ShapeError as MultiheadAttention.
  Variable forward(const Variable& src, const Variable& tgt,
                   const TransformerArguments& arguments = {}) const;
  /// The causal mask as a floating one, for `src_mask` and the like: (size, size), 0 up to the diagonal and
  /// minus infinity above. `is_causal` has its effect without storing it.
  static Tensor generate_square_subsequent_mask(int64_t size);
};

}  // namespace tessera::nn
