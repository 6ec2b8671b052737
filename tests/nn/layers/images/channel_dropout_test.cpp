#include "nn/layers/images/channel_dropout.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/elementwise/binary.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

Tensor numbered(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = 1 + static_cast<double>(i % 7);
  return x;
}
double at(const Variable& x, int64_t i) {
  return x.value().contiguous().data<double>()[i];
}

/// The number of channels that are dropped, all others being doubled; -1 where a channel is neither.
int dropped_channels(const Tensor& x, const Variable& y) {
  const int64_t plane = x.numel() / (x.shape()[0] * x.shape()[1]);
  int dropped = 0;
  for (int64_t c = 0; c < x.numel() / plane; ++c) {
    const bool drops = at(y, c * plane) == 0;
    for (int64_t i = c * plane; i < (c + 1) * plane; ++i)
      if (at(y, i) != (drops ? 0 : 2 * x.data<double>()[i])) return -1;
    dropped += drops;
  }
  return dropped;
}

}  // namespace

TEST_CASE("channel dropout: whole channels, by sample, and none in evaluation") {
  begin_random_step(1, 0, std::vector<int64_t>{0, 1, 2, 3});
  const Tensor rows = numbered({4, 20, 3}), planes = numbered({4, 20, 2, 2}),
               volumes = numbered({4, 20, 2, 1, 2});
  for (const int dropped : {dropped_channels(rows, nn::Dropout1d(0.5)(Variable(rows))),
                            dropped_channels(planes, nn::Dropout2d(0.5)(Variable(planes))),
                            dropped_channels(volumes, nn::Dropout3d(0.5)(Variable(volumes)))}) {
    CHECK(dropped > 20);
    CHECK(dropped < 60);
  }
  nn::Dropout2d layer(0.5);
  layer.eval();
  CHECK(at(layer(Variable(planes)), 5) == planes.data<double>()[5]);
  const DropoutMask mask{.probability = 0.5, .key = 7};
  const Variable whole = dropout2d(Variable(planes), mask);
  begin_random_step(1, 0, std::vector<int64_t>{2, 3});
  const Variable half = dropout2d(Variable(planes.narrow(0, 2, 2).contiguous()), mask);
  for (int64_t i = 0; i < half.numel(); ++i) CHECK(at(half, i) == at(whole, 160 + i));
}

TEST_CASE("channel dropout: first and second derivatives") {
  begin_random_step(1, 0, std::vector<int64_t>{0, 1});
  const DropoutMask mask{.probability = 0.5, .key = 3};
  const std::vector<Variable> x{Variable::leaf(numbered({2, 3, 2, 2}))};
  const auto check = [&](auto function) {
    const CheckedFunction checked = [&](std::span<const Variable> in) {
      return std::vector<Variable>{function(in[0] * in[0], mask)};
    };
    CHECK(gradcheck(checked, x).passed);
    CHECK(gradgradcheck(checked, x).passed);
  };
  check(dropout2d);
  check(alpha_dropout);
  check(feature_alpha_dropout);
}

TEST_CASE("alpha dropout: mean 0 and variance 1 stay") {
  begin_random_step(1, 0, std::vector<int64_t>{0});
  const int64_t n = 40000;
  const Tensor x = Tensor::empty({1, n}, f64);
  for (int64_t i = 0; i < n; ++i) x.data<double>()[i] = i % 2 == 0 ? 1 : -1;
  const Variable y = nn::AlphaDropout(0.3)(Variable(x));
  double mean = 0, square = 0;
  for (int64_t i = 0; i < n; ++i) mean += at(y, i) / n, square += at(y, i) * at(y, i) / n;
  CHECK(std::abs(mean) < 0.03);
  CHECK(std::abs(square - 1) < 0.03);
  const Variable z = nn::FeatureAlphaDropout(0.5)(Variable(numbered({1, 50, 3})));
  for (int64_t c = 0; c < 50; ++c)
    CHECK((at(z, 3 * c) == at(z, 3 * c + 1)) == (at(z, 3 * c + 1) == at(z, 3 * c + 2)));
}

TEST_CASE("channel dropout: bad probabilities and ranks are errors") {
  CHECK_THROWS_WITH_AS(nn::Dropout2d(1.0), doctest::Contains("nn::Dropout2d: expected a probability"),
                       ConfigError);
  CHECK_THROWS_AS(nn::AlphaDropout(-0.1), ConfigError);
  CHECK_THROWS_AS(nn::FeatureAlphaDropout(1.5), ConfigError);
  CHECK_THROWS_WITH_AS(nn::Dropout2d(0.5)(Variable(numbered({2, 3, 4}))),
                       doctest::Contains("of 4 dimensions"), ShapeError);
}
