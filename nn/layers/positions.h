#pragma once

#include "autograd/functions/layers/rotary.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"

/// Positions of a sequence's elements: rotary, sinusoidal and learned ones.
namespace tessera::nn {

/// Options of RotaryEmbedding.
struct RotaryEmbeddingOptions {
  int64_t dims = 0;          ///< the first elements of a head that turn, even; 0: all
  double base = 10000;       ///< of the angles; Llama 3 has 500000
  bool interleaved = false;  ///< pairs of neighbours (GPT-J), else of halves (GPT-NeoX, Llama)
  int64_t max_len = 0;       ///< positions are below it; 0: any
};

/// Rotary positions (Su et al. 2021) of queries and keys, without parameters: x (B, H, T, D) of positions
/// from `first_position` on to the same shape. A key is turned before it is cached.
struct RotaryEmbedding : Layer<RotaryEmbedding, RotaryEmbeddingOptions> {
  /// Throws ConfigError for odd or negative dims, a base of 0 or less, or a negative max_len.
  explicit RotaryEmbedding(Options options = {});
  std::string describe_options() const override { return text("base ", o.base); }
  /// Throws ShapeError, naming the layer, for positions from max_len on; else as `rotary`.
  Variable forward(const Variable& x, int64_t first_position = 0) const;
  /// The same with a first position for each row of the batch: `cache.lengths()`.
  Variable forward(const Variable& x, const std::vector<int64_t>& first_positions) const;

 private:
  Variable turn(const Variable& x, RotaryOptions options, int64_t first) const;
};

/// The table of Vaswani et al. (2017): row p has sin(p / 10000^(2 i / width)) at 2 i and the cosine at 2 i +
/// 1: (count, width) f32. Throws ValueError for sizes below 1.
Tensor sinusoidal_positions(int64_t count, int64_t width);

/// Options of PositionalEncoding.
struct PositionalEncodingOptions {
  int64_t d_model = 0;      ///< C, features
  double dropout = 0.1;     ///< of the sum
  int64_t max_len = 5000;   ///< positions
  bool batch_first = true;  ///< x is (B, T, C) instead of (T, B, C)
};

/// x + sinusoidal positions, then dropout: x (B, T, C).
struct PositionalEncoding : Layer<PositionalEncoding, PositionalEncodingOptions> {
  /// (1, max_len, C): `sinusoidal_positions`.
  Variable& pe = buffer("pe", [o = o](Device device) {
    return sinusoidal_positions(o.max_len, o.d_model).unsqueeze(0).to(device);
  });
  Dropout& dropout = add<Dropout>("dropout", o.dropout);  ///< of the sum

  /// Throws ConfigError for a dropout outside [0, 1), ValueError for sizes below 1.
  explicit PositionalEncoding(Options options) : Layer(options) {}
  std::string describe_options() const override { return text(o.max_len, " x ", o.d_model); }
  /// Throws ShapeError, naming the layer, for other features or more than max_len positions.
  Variable forward(const Variable& x) const;
  /// The positions 0 .. count - 1 as (count, C), for a function that adds them in its own pass. Throws as
  /// `forward`.
  Variable at(int64_t count) const;
};

/// Options of LearnedPositions.
struct LearnedPositionsOptions {
  int64_t count = 0;                                   ///< positions
  int64_t width = 0;                                   ///< C, features
  init::Initializer weight_init = init::normal(0.02);  ///< GPT-2's
};

/// x + a learned vector per position: x (B, T, C), the positions from `first_position` on.
struct LearnedPositions : Layer<LearnedPositions, LearnedPositionsOptions> {
  Variable& weight = parameter("weight", {o.count, o.width}, o.weight_init);  ///< (count, C)

  /// Declares the table on meta.
  explicit LearnedPositions(Options options) : Layer(std::move(options)) {}
  std::string describe_options() const override { return text(o.count, " x ", o.width); }
  /// Throws ShapeError, naming the layer, for other features or positions from `count` on.
  Variable forward(const Variable& x, int64_t first_position = 0) const;
};

}  // namespace tessera::nn
