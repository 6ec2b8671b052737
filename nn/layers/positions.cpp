#include "nn/layers/positions.h"

#include <algorithm>
#include <cmath>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/view.h"

namespace tessera::nn {

RotaryEmbedding::RotaryEmbedding(Options options) : Layer(options) {
  require<ConfigError>(o.dims >= 0 && o.dims % 2 == 0,
                       "nn::RotaryEmbedding: expected an even number of dims, got ", o.dims);
  require<ConfigError>(o.base > 0, "nn::RotaryEmbedding: expected a base above 0, got ", o.base);
  require<ConfigError>(o.max_len >= 0, "nn::RotaryEmbedding: expected a max_len of at least 0, got ",
                       o.max_len);
}

Variable RotaryEmbedding::turn(const Variable& x, RotaryOptions options, int64_t first) const {
  const int64_t count = x.ndim() == 4 ? x.size(2) : 0;
  require<ShapeError>(o.max_len == 0 || first <= o.max_len - count, "nn::RotaryEmbedding '", full_name(),
                      "': ", count, " positions from ", first, " on pass max_len ", o.max_len, "; x is ", x);
  options.base = o.base;
  options.dims = o.dims;
  options.interleaved = o.interleaved;
  return rotary(x, options);
}

Variable RotaryEmbedding::forward(const Variable& x, int64_t first_position) const {
  return turn(x, {.first_position = first_position}, first_position);
}

Variable RotaryEmbedding::forward(const Variable& x, const std::vector<int64_t>& first_positions) const {
  const int64_t longest =
      first_positions.empty() ? 0 : *std::max_element(first_positions.begin(), first_positions.end());
  return turn(x, {.first_positions = first_positions}, longest);
}

Tensor sinusoidal_positions(int64_t count, int64_t width) {
  require<ValueError>(count >= 1 && width >= 1,
                      "sinusoidal_positions: expected at least 1 position and 1 feature, got ", count,
                      " and ", width);
  const Tensor table = Tensor::empty({count, width}, f32);
  for (int64_t i = 0; i < width; ++i) {
    const int64_t pair = i / 2;
    const double frequency = std::pow(10000.0, -static_cast<double>(2 * pair) / static_cast<double>(width));
    for (int64_t p = 0; p < count; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table.data<float>()[p * width + i] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

Variable PositionalEncoding::at(int64_t count) const {
  require<ShapeError>(count <= o.max_len, "nn::PositionalEncoding '", full_name(), "': a sequence of ", count,
                      " positions, more than max_len ", o.max_len);
  return narrow(select(pe, 0, 0), 0, 0, count);
}

Variable PositionalEncoding::forward(const Variable& x) const {
  require<ShapeError>(x.ndim() == 3 && x.size(2) == o.d_model, "nn::PositionalEncoding '", full_name(),
                      "': expected 3 dimensions, the last of ", o.d_model, " features, got ", x);
  if (o.batch_first) return dropout(x + cast(at(x.size(1)), x.dtype()));
  DropoutMask mask = dropout.mask();
  mask.samples = samples_along(1);
  return apply_dropout({x + unsqueeze(cast(at(x.size(0)), x.dtype()), 1), mask});
}

Variable LearnedPositions::forward(const Variable& x, int64_t first_position) const {
  require<ShapeError>(x.ndim() == 3 && x.size(2) == o.width, "nn::LearnedPositions '", full_name(),
                      "': expected x (B, T, ", o.width, "), got ", x);
  require<ShapeError>(first_position >= 0 && first_position <= o.count - x.size(1), "nn::LearnedPositions '",
                      full_name(), "': ", x.size(1), " positions from ", first_position,
                      " on are not inside its ", o.count, "; x is ", x);
  return x + narrow(weight, 0, first_position, x.size(1));
}

}  // namespace tessera::nn
