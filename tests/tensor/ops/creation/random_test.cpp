// Random fills by global index, their distributions, multinomial.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "tensor/cpu/isa.h"
#include "tensor/ops/creation/random.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

std::vector<double> values(const Tensor& x) {
  const Tensor wide = ops::cast(x, f64).contiguous();
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

using Fill = void (*)(const Tensor&, uint64_t, int64_t);

const Fill fills[] = {
    [](const Tensor& x, uint64_t key, int64_t first) { ops::fill_uniform(x, key, first, -2, 3); },
    [](const Tensor& x, uint64_t key, int64_t first) { ops::fill_normal(x, key, first, 1, 0.5); },
    [](const Tensor& x, uint64_t key, int64_t first) {
      ops::fill_truncated_normal(x, key, first, 1, 0.5, -1, 2);
    },
    [](const Tensor& x, uint64_t key, int64_t first) { ops::fill_bernoulli(x, key, 0.3, first); },
};

struct Moments {
  double mean, variance;
};
Moments moments(const std::vector<double>& x) {
  double sum = 0, squares = 0;
  for (const double v : x) sum += v;
  const double mean = sum / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean);
  return {mean, squares / static_cast<double>(x.size())};
}

}  // namespace

TEST_CASE("random fills: any range has the values of the full tensor, in every dtype") {
  for (const DType dtype : {f64, f32, bf16})
    for (const Fill fill : fills) {
      const Tensor full = Tensor::empty({5000}, dtype);
      fill(full, 42, 0);
      const std::vector<double> expected = values(full);
      for (const int64_t first : {0, 1, 2, 3, 511, 777, 4096})
        for (const int64_t n : {1, 2, 5, 600}) {
          const Tensor range = Tensor::empty({n}, dtype);
          fill(range, 42, first);
          const std::vector<double> got = values(range);
          for (int64_t i = 0; i < n && first + i < 5000; ++i) CHECK(got[i] == expected[first + i]);
        }
    }
}

TEST_CASE(
    "random fills: the same bits on every instruction set and number of threads, and into strided tensors") {
  for (const Fill fill : fills) {
    const Tensor one = Tensor::empty({40000}, f64);
    fill(one, 7, 3);
    const std::vector<double> expected = values(one);
    const int threads = num_threads();
    for (const auto isa : {kernels::cpu::Isa::baseline, kernels::cpu::Isa::avx2, kernels::cpu::Isa::avx512})
      for (const int count : {1, 3}) {
        const kernels::cpu::IsaScope scope(isa);
        set_num_threads(count);
        const Tensor other = Tensor::empty({200, 200}, f64);
        fill(other.transpose(0, 1), 7, 3);
        CHECK(values(other.transpose(0, 1)) == expected);
      }
    set_num_threads(threads);
  }
}

TEST_CASE("random fills: element 4b + l is word l of block b") {
  const Tensor u = Tensor::empty({8}, f32), coin = Tensor::empty({8}, boolean);
  ops::fill_uniform(u, 99, 40);
  ops::fill_bernoulli(coin, 99, 0.5, 40);
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = elementwise::random_block(99, 10 + i / 4, 0, 0).word[i % 4];
    CHECK(u.data<float>()[i] == static_cast<float>(word >> 8) * 0x1p-24f);
    CHECK(values(coin)[i] == (word < 0x80000000u ? 1 : 0));
  }
}

TEST_CASE("random fills: test vectors") {
  const Tensor u = Tensor::empty({4}, f32), z = Tensor::empty({4}, f64);
  ops::fill_uniform(u, 0);
  // Random123's block for counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const double expected[] = {0x6627e8 * 0x1p-24, 0xe169c5 * 0x1p-24, 0xbc57ac * 0x1p-24, 0x9b00db * 0x1p-24};
  for (int i = 0; i < 4; ++i) CHECK(values(u)[i] == expected[i]);
  ops::fill_normal(z, 0);
  for (int pair = 0; pair < 2; ++pair) {
    const double radius_word[] = {0x6627e8d5, 0xbc57ac4c}, angle_word[] = {0xe169c58d, 0x9b00dbd8};
    const double radius = std::sqrt(-2 * std::log((radius_word[pair] + 0.5) * 0x1p-32));
    const double angle = 2 * 3.14159265358979323846 * (angle_word[pair] * 0x1p-32 - 0.125);
    CHECK(values(z)[2 * pair] == doctest::Approx(radius * std::cos(angle)).epsilon(1e-12));
    CHECK(values(z)[2 * pair + 1] == doctest::Approx(radius * std::sin(angle)).epsilon(1e-12));
  }
}

TEST_CASE("random fills: mean and variance match the distribution within five standard errors") {
  const int64_t n = 1 << 18;
  const double root = std::sqrt(static_cast<double>(n));
  const Tensor x = Tensor::empty({n}, f32);
  ops::fill_uniform(x, 1);
  CHECK(std::fabs(moments(values(x)).mean - 0.5) < 5 * std::sqrt(1.0 / 12) / root);
  CHECK(std::fabs(moments(values(x)).variance - 1.0 / 12) < 5 * std::sqrt(1.0 / 180) / root);
  ops::fill_normal(x, 2);
  CHECK(std::fabs(moments(values(x)).mean) < 5 / root);
  CHECK(std::fabs(moments(values(x)).variance - 1) < 5 * std::sqrt(2.0) / root);
  double fourth = 0;
  for (const double v : values(x)) fourth += v * v * v * v;
  CHECK(std::fabs(fourth / static_cast<double>(n) - 3) < 5 * std::sqrt(96.0) / root);
  ops::fill_truncated_normal(x, 3);
  // 1 - 2 b phi(b) / (2 Phi(b) - 1) for bounds of +-2.
  const double phi = std::exp(-2.0) / std::sqrt(2 * 3.14159265358979323846), mass = std::erf(std::sqrt(2.0));
  CHECK(std::fabs(moments(values(x)).variance - (1 - 4 * phi / mass)) < 5 * std::sqrt(2.0) / root);
  for (const double v : values(x)) CHECK(std::fabs(v) <= 2);
  const Tensor coin = Tensor::empty({n}, boolean);
  ops::fill_bernoulli(coin, 4, 0.2);
  CHECK(std::fabs(moments(values(coin)).mean - 0.2) < 5 * 0.4 / root);
}

TEST_CASE("random fills: an f32 normal is the f64 one, rounded; uniforms share their first 24 bits") {
  const Tensor wide = Tensor::empty({1000}, f64), narrow = Tensor::empty({1000}, f32);
  ops::fill_normal(wide, 5);
  ops::fill_normal(narrow, 5);
  for (int i = 0; i < 1000; ++i) CHECK(narrow.data<float>()[i] == static_cast<float>(wide.data<double>()[i]));
  ops::fill_uniform(wide, 5);
  ops::fill_uniform(narrow, 5);
  for (int i = 0; i < 1000; ++i)
    CHECK(narrow.data<float>()[i] == std::floor(wide.data<double>()[i] * 0x1p24) * 0x1p-24);
}

TEST_CASE("random fills: refused arguments") {
  CHECK_THROWS_AS(ops::fill_uniform(Tensor::empty({2}, i64), 0), DTypeError);
  CHECK_THROWS_AS(ops::fill_uniform(Tensor::empty({2}, f32), 0, -1), ValueError);
  CHECK_THROWS_AS(ops::fill_uniform(Tensor::empty({2}, f32), 0, 0, 1, 0), ValueError);
  CHECK_THROWS_AS(ops::fill_truncated_normal(Tensor::empty({2}, f32), 0, 0, 0, 1, 2, -2), ValueError);
  CHECK_THROWS_AS(ops::fill_bernoulli(Tensor::empty({2}, f32), 0, 1.5), ValueError);
}

TEST_CASE("multinomial: frequencies follow the weights") {
  const Tensor weights = Tensor::from<float>({1, 0, 3, 4, 0, 0, 2, 0}, {2, 4});
  const int64_t n = 40000;
  const Tensor drawn = ops::multinomial(weights, n, 11);
  REQUIRE(drawn.shape() == Shape{2, n});
  const double expected[2][4] = {{0.125, 0, 0.375, 0.5}, {0, 0, 1, 0}};
  for (int row = 0; row < 2; ++row) {
    double counts[4] = {};
    for (int64_t i = 0; i < n; ++i) ++counts[drawn.data<int64_t>()[row * n + i]];
    for (int k = 0; k < 4; ++k) {
      const double p = expected[row][k];
      CHECK(std::fabs(counts[k] / static_cast<double>(n) - p) <=
            5 * std::sqrt(p * (1 - p) / static_cast<double>(n)));
    }
  }
  const Tensor once = ops::multinomial(weights.select(0, 0), 3, 12, false);
  double sum = 0;
  for (const double k : values(once)) sum += std::pow(10, k);
  CHECK(sum == 1101);  // each of 0, 2, 3 once
  CHECK_THROWS_AS(ops::multinomial(weights, 2, 1, false), ValueError);
  CHECK_THROWS_AS(ops::multinomial(Tensor::from<float>({1, -1}), 1, 1), ValueError);
  CHECK_THROWS_AS(ops::multinomial(Tensor::from<float>({0, 0}), 1, 1), ValueError);
}
