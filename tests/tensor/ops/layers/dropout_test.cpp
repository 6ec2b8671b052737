// Dropout of tensors: which elements the mask drops, dtypes, refused arguments.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/dropout.h"
#include "tensor/random/philox.h"
#include "tensor/random/random_context.h"

using namespace tessera;

namespace {

std::vector<double> values(const Tensor& x) {
  const Tensor wide = ops::cast(x, f64).contiguous();
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

}  // namespace

TEST_CASE("dropout: the mask depends on (key, sample, step, index in the sample)") {
  RandomContextScope scope({.seed = 1, .step = 5, .samples = {7, 3, 9, 12}});
  const Tensor x = ops::ones({4, 10, 77}, f32), y = ops::dropout(x, 0.25, 1234);
  int64_t kept = 0;
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t i = 0; i < 770; ++i) {
      const auto sample = static_cast<uint32_t>(random_context().samples[row]);
      const bool dropped = elementwise::random_block(1234, i / 4, sample, 5).word[i % 4] < 0x40000000u;
      const float value = y.data<float>()[row * 770 + i];
      CHECK(value == (dropped ? 0.0f : static_cast<float>(1 / 0.75)));
      kept += !dropped;
    }
  CHECK(std::fabs(static_cast<double>(kept) / 3080 - 0.75) < 5 * std::sqrt(0.1875 / 3080));
  // A micro-batch of two of the samples, in another order, has their rows.
  RandomContextScope micro_batch({.seed = 1, .step = 5, .samples = {9, 7}});
  const std::vector<double> rows = values(ops::dropout(x.slice(0, 0, 2), 0.25, 1234)), all = values(y);
  for (int64_t i = 0; i < 770; ++i) {
    CHECK(rows[i] == all[2 * 770 + i]);
    CHECK(rows[770 + i] == all[i]);
  }
}

TEST_CASE("dropout: other dtypes, offsets, probabilities 0 and 1, and refused arguments") {
  RandomContextScope scope({.seed = 1, .step = 0, .samples = {}});
  const Tensor x = ops::ones({2, 900}, f32);
  const std::vector<double> single = values(ops::dropout(x, 0.5, 9));
  CHECK(values(ops::dropout(ops::cast(x, f64), 0.5, 9)) == single);
  CHECK(values(ops::dropout(ops::cast(x, bf16), 0.5, 9)) == single);
  const std::vector<double> tail = values(ops::dropout(ops::ones({1, 301}, f32), 0.5, 9, 599));
  for (int i = 0; i < 301; ++i) CHECK(tail[i] == single[599 + i]);
  CHECK(values(ops::dropout(x, 0, 9)) == values(x));
  CHECK(values(ops::dropout(x, 1, 9)) == std::vector<double>(1800, 0.0));
  CHECK(ops::dropout(Tensor::empty({2, 3}, f32, meta()), 0.5, 1).shape() == Shape{2, 3});
  CHECK_THROWS_AS(ops::dropout(x, -0.1, 9), ValueError);
  CHECK_THROWS_AS(ops::dropout(ops::arange(3), 0.1, 9), DTypeError);
  RandomContextScope few({.seed = 1, .step = 0, .samples = {1}});
  CHECK_THROWS_AS(ops::dropout(x, 0.5, 9), ValueError);
}
