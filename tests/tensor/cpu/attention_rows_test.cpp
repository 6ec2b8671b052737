// The kernels of attention's rows, against sums in f64 and between instruction sets.
#include "tensor/cpu/attention/attention_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/random/philox.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

constexpr int64_t leading = 80;
constexpr float not_a_number = __builtin_nanf(""), infinity = __builtin_huge_valf();

struct Weights {
  std::vector<float> weights = std::vector<float>(attention_tile * leading, 7.0f);
  float largest[attention_tile], log_sum[attention_tile];
};

/// Rows of scores; row r has `visible + r` visible ones, up to 70, and 70 written weights.
Weights weights_of(std::vector<float> s, int64_t visible, float scale, const float* factors,
                   int64_t count = attention_tile) {
  std::vector<AttentionRow<float>> rows;
  for (int64_t r = 0; r < count; ++r) rows.push_back({std::min<int64_t>(visible + r, 70), 70, scale, scale});
  Weights w;
  std::fill_n(w.largest, attention_tile, 7.0f);
  std::fill_n(w.log_sum, attention_tile, 7.0f);
  const auto& kernels = *TESSERA_PER_ISA(attention_rows_f32)();
  float factor[attention_tile];
  kernels.weights({rows.data(), count, leading, s.data(), factors, w.weights.data(), w.largest, w.log_sum,
                   nullptr, true});
  kernels.invert(count, w.largest, w.log_sum, factor);
  kernels.take_logarithms(count, w.largest, w.log_sum);
  kernels.rescale(w.weights.data(), leading, factor, w.weights.data(), leading, count, 70);
  return w;
}

std::vector<float> scores(uint64_t seed) {
  const Tensor x = random_tensor({attention_tile * leading}, f32, seed);
  return {x.data<float>(), x.data<float>() + x.numel()};
}

}  // namespace

TEST_CASE(
    "attention rows: softmax of 0 to 70 keys, zeros after them, the same bits on every instruction set") {
  const std::vector<float> s = scores(1), factors = scores(2);
  for (const float scale : {3.0f, -60.0f})
    for (int64_t visible = 0; visible <= 70; ++visible) {
      const Weights best = weights_of(s, visible, scale, factors.data());
      for (int64_t r = 0; r < attention_tile; ++r) {
        const int64_t n = std::min<int64_t>(visible + r, 70);
        double sum = 0, largest = -HUGE_VAL;
        for (int64_t i = 0; i < n; ++i) largest = std::max<double>(largest, scale * s[r * leading + i]);
        for (int64_t i = 0; i < n; ++i) sum += std::exp(double{scale} * s[r * leading + i] - largest);
        for (int64_t i = 0; i < 70; ++i) {
          const int64_t at = r * leading + i;
          const double weight = i < n ? std::exp(double{scale} * s[at] - largest) / sum * factors[at] : 0.0;
          CHECK(std::abs(best.weights[at] - weight) <= 2e-5);
          if (i >= n) CHECK(best.weights[at] == 0.0f);
        }
        if (n > 0) CHECK(std::abs(best.log_sum[r] - std::log(sum)) <= 1e-5);
      }
      for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        const IsaScope scope(isa);
        const Weights other = weights_of(s, visible, scale, factors.data());
        for (int64_t r = 0; r < attention_tile; ++r) {
          REQUIRE(best.largest[r] == other.largest[r]);
          REQUIRE(best.log_sum[r] == other.log_sum[r]);
          for (int64_t i = 0; i < 70; ++i)
            REQUIRE(best.weights[r * leading + i] == other.weights[r * leading + i]);
        }
      }
    }
}

TEST_CASE("attention rows: a row has the same bits among any number of rows, and others stay as they are") {
  const std::vector<float> s = scores(6);
  for (const float scale : {1.5f, -1.5f})
    for (const int64_t visible : {0, 1, 15, 33, 64}) {
      const Weights all = weights_of(s, visible, scale, nullptr);
      for (int64_t count = 1; count < attention_tile; ++count) {
        const Weights some = weights_of(s, visible, scale, nullptr, count);
        for (int64_t r = 0; r < attention_tile; ++r) {
          REQUIRE(some.largest[r] == (r < count ? all.largest[r] : 7.0f));
          REQUIRE(some.log_sum[r] == (r < count ? all.log_sum[r] : 7.0f));
          for (int64_t i = 0; i < 70; ++i)
            REQUIRE(some.weights[r * leading + i] == (r < count ? all.weights[r * leading + i] : 7.0f));
        }
      }
    }
}

TEST_CASE("attention rows: two ranges of keys weigh as one, and a hidden range changes nothing") {
  constexpr int64_t first = 32, all = 70;
  const auto& kernels = *TESSERA_PER_ISA(attention_rows_f32)();
  for (const float scale : {3.0f, -60.0f}) {
    std::vector<float> s = scores(7);
    // The second range of row 1 is hidden, and the first of row 2; row 3 sees nothing.
    const float hidden = scale < 0 ? infinity : -infinity;
    std::fill_n(s.begin() + leading + first, all - first, hidden);
    std::fill_n(s.begin() + 2 * leading, first, hidden);
    std::fill_n(s.begin() + 3 * leading, all, hidden);
    const Weights one = weights_of(s, 70, scale, nullptr, 9);
    std::vector<float> two(9 * leading);
    float largest[9], sums[9], factors[2][9], inverse[9];
    for (int range = 0; range < 2; ++range) {
      const int64_t begin = range * first, count = range == 0 ? first : all - first;
      const std::vector<AttentionRow<float>> rows(9, {count, count, scale, scale});
      kernels.weights({rows.data(), 9, leading, s.data() + begin, nullptr, two.data() + begin, largest, sums,
                       factors[range], range == 0});
    }
    kernels.invert(9, largest, sums, inverse);
    kernels.take_logarithms(9, largest, sums);
    for (int64_t r = 0; r < 9; ++r) {
      CHECK(largest[r] == one.largest[r]);
      CHECK(std::abs(sums[r] - one.log_sum[r]) <= 1e-6f);
      for (int64_t i = 0; i < all; ++i) {
        const float weight = two[r * leading + i] * inverse[r] * (i < first ? factors[1][r] : 1.0f);
        CHECK(std::abs(weight - one.weights[r * leading + i]) <= 1e-6f);
      }
    }
    CHECK(inverse[3] == 1.0f);
    CHECK(sums[3] == 0.0f);
    CHECK(factors[1][1] == 1.0f);
    CHECK(factors[1][2] == 0.0f);
  }
}

TEST_CASE("attention rows: a NaN in one range is kept where the next one is hidden") {
  for (const float later : {-infinity, 1.0f})
    for (const bool nan_first : {true, false}) {
      float s[2][leading], w[leading], largest, sum, factor;
      std::fill_n(s[nan_first ? 0 : 1], leading, not_a_number);
      std::fill_n(s[nan_first ? 1 : 0], leading, later);
      const AttentionRow<float> row{40, 40, 1.0f, 1.0f};
      const auto& kernels = *TESSERA_PER_ISA(attention_rows_f32)();
      for (int range = 0; range < 2; ++range)
        kernels.weights({&row, 1, leading, s[range], nullptr, w, &largest, &sum, &factor, range == 0});
      CHECK(std::isnan(largest));
      kernels.take_logarithms(1, &largest, &sum);
      CHECK(std::isnan(sum));
    }
}

TEST_CASE("attention rows: products so large that their rounding exceeds exp's range give no infinite sum") {
  for (const float scale : {1.0f, 3.0f, -7.0f}) {
    std::vector<float> s(leading), w(leading);
    for (size_t i = 0; i < leading; ++i) s[i] = (scale < 0 ? -1 : 1) * 3.3e12f;
    const AttentionRow<float> row{leading, leading, scale, scale};
    float largest, sum, inverse;
    const auto& kernels = *TESSERA_PER_ISA(attention_rows_f32)();
    kernels.weights({&row, 1, leading, s.data(), nullptr, w.data(), &largest, &sum, nullptr, true});
    kernels.invert(1, &largest, &sum, &inverse);
    CHECK(std::isfinite(sum));
    // Right where the largest product was not rounded up; else NaN, and not a result of 0.
    const float weight = w[0] * inverse;
    CHECK((std::isnan(weight) || std::abs(weight - 1.0f / leading) < 1e-6f));
  }
}

TEST_CASE("attention rows: exponentials are exact to f32's last bits, or to those that bf16 keeps") {
  constexpr int64_t count = 80;
  for (const Isa isa : {Isa::amx, Isa::avx512, Isa::avx2, Isa::baseline}) {
    const IsaScope scope(isa);
    const AttentionRow<float> row{count, count, 1.0f, 1.0f};
    for (float from = 0; from > -90; from -= 3.0f) {
      std::vector<float> s(count), w(count);
      std::vector<bfloat16> rounded(count);
      for (int64_t i = 0; i < count; ++i) s[static_cast<size_t>(i)] = from - 0.0373f * static_cast<float>(i);
      s[0] = 0.0f;
      s[1] = -infinity;
      float largest, sum, other, other_sum;
      TESSERA_PER_ISA(attention_rows_f32)
      ()->weights({&row, 1, count, s.data(), nullptr, w.data(), &largest, &sum, nullptr, true});
      TESSERA_PER_ISA(attention_rows_bf16)
      ()->weights({&row, 1, count, s.data(), nullptr, rounded.data(), &other, &other_sum, nullptr, true});
      CHECK(w[0] == 1.0f);
      CHECK(w[1] == 0.0f);
      CHECK(rounded[1].bits == 0);
      for (size_t i = 2; i < count; ++i) {
        const double exact = s[i] < -87.33 ? 0.0 : std::exp(double{s[i]});
        if (s[i] < -87.3 && s[i] > -87.4) continue;  // the smallest normal number
        REQUIRE(std::abs(w[i] - exact) <= 2e-7 * exact);
        REQUIRE(std::abs(static_cast<double>(static_cast<float>(rounded[i])) - exact) <=
                (1.0 / 256 + 1e-5) * exact);
      }
      REQUIRE(std::abs(other_sum - sum) <= 1e-5f * sum);
    }
  }
}

TEST_CASE("attention rows: a NaN, and hidden keys, with a negative scale") {
  std::vector<float> s(attention_tile * leading, infinity);  // times -1: hidden
  s[3] = not_a_number;
  s[leading + 5] = -2.0f;
  const Weights w = weights_of(s, 40, -1.0f, nullptr);
  CHECK(std::isnan(w.weights[0]));
  CHECK(w.weights[leading + 5] == 1.0f);
  CHECK(w.weights[leading + 6] == 0.0f);
  CHECK(w.largest[1] == 2.0f);
  CHECK(w.largest[2] == -infinity);
  CHECK(w.weights[2 * leading] == 0.0f);
}

namespace {

/// The dots of 1 to 17 rows, of T, against sums in f64; elements after them stay.
template <class T, class A>
void check_dots(const AttentionRows<A, T>& kernels, double tolerance) {
  constexpr int64_t most = 17, stride = 50;
  const Tensor values = random_tensor({2 * most * stride}, f32, 9);
  std::vector<T> a, b;
  for (int64_t i = 0; i < most * stride; ++i) {
    a.push_back(static_cast<T>(values.data<float>()[i]));
    b.push_back(static_cast<T>(values.data<float>()[most * stride + i]));
  }
  for (int64_t rows = 1; rows <= most; ++rows)
    for (const int64_t n : {1, 31, 32, 49}) {
      std::vector<A> out(most + 1, A(7));
      kernels.dots(a.data(), stride, b.data(), stride, rows, n, out.data());
      for (int64_t r = 0; r <= most; ++r) {
        double sum = 0;
        for (int64_t i = 0; r < rows && i < n; ++i)
          sum += double{static_cast<A>(a[static_cast<size_t>(r * stride + i)])} *
                 double{static_cast<A>(b[static_cast<size_t>(r * stride + i)])};
        CHECK(std::abs(static_cast<double>(out[static_cast<size_t>(r)]) - (r < rows ? sum : 7.0)) <=
              tolerance);
      }
    }
}

}  // namespace

TEST_CASE("attention rows: dots of any number of rows, at each instruction set") {
  for (const Isa isa : {Isa::amx, Isa::avx512, Isa::avx2, Isa::baseline}) {
    const IsaScope scope(isa);
    // 49 products of numbers up to 4, each sum rounded.
    check_dots(*TESSERA_PER_ISA(attention_rows_f32)(), 2e-5);
    check_dots(*TESSERA_PER_ISA(attention_rows_bf16)(), 2e-5);
    check_dots(*TESSERA_PER_ISA(attention_rows_f64)(), 1e-13);
  }
}

TEST_CASE("attention rows: a NaN among hidden keys is no hidden row, and a hidden row is zeros") {
  for (const int64_t place : {0, 3, 17, 33, 39}) {
    std::vector<float> s(attention_tile * leading, -infinity);
    s[place] = not_a_number;
    const Weights w = weights_of(s, 40, 1.0f, nullptr);
    for (int64_t i = 0; i < 40; ++i) CHECK(std::isnan(w.weights[i]));
    for (int64_t i = leading; i < leading + 70; ++i) CHECK(w.weights[i] == 0.0f);
    CHECK(w.largest[1] == -infinity);
  }
}

TEST_CASE(
    "attention rows: dropout factors are the words of their elements, for any row and instruction set") {
  const auto factor_of = [](const MaskRow& mask, uint64_t element) {
    const auto block = elementwise::random_block(mask.key, element / 4, mask.sample, mask.step);
    return block.word[element % 4] < mask.threshold ? 0.0f : static_cast<float>(mask.scale);
  };
  for (const Isa isa : {Isa::amx, Isa::avx2, Isa::baseline}) {
    const IsaScope scope(isa);
    for (const int64_t step : {68, 96, 75})
      for (const uint64_t first : {0, 64, 3}) {
        const MaskRow mask{.key = 0x123456789abcdefu,
                           .first = first,
                           .threshold = 0x60000000u,
                           .sample = 5,
                           .step = 7,
                           .scale = 1.6};
        // Rows of many lengths, long before short and after; rows 3 and 4 see nothing. Rows from `count` on
        // are not written.
        constexpr int64_t all = 12;
        std::vector<AttentionRow<float>> rows;
        for (int64_t r = 0; r < all; ++r)
          rows.push_back({r == 3 || r == 4 ? 0 : r < 6 ? 70 - 8 * r : 8 * r - 20, 70, 1.0f, 1.0f});
        for (int64_t count = 1; count < all; ++count) {
          std::vector<float> factors(all * leading, -1.0f);
          TESSERA_PER_ISA(attention_rows_f32)
          ()->dropout_factors(mask, rows.data(), count, step, leading, factors.data());
          for (int64_t r = 0; r < all; ++r)
            for (int64_t i = 0; i < leading; ++i) {
              const float factor = factors[r * leading + i];
              const int64_t visible = r < count ? rows[r].visible : 0;
              if (i < visible)
                REQUIRE(factor == factor_of(mask, first + static_cast<uint64_t>(r * step + i)));
              else if (i >= (visible + 15) / 16 * 16)
                REQUIRE(factor == -1.0f);
              else
                REQUIRE((factor == 0.0f || factor == 1.6f));
            }
        }
      }
  }
}

TEST_CASE("attention rows: AVX512-BF16 rounds as the other instruction sets do") {
  std::vector<AttentionRow<float>> rows;
  for (int64_t r = 0; r < attention_tile; ++r) rows.push_back({38 + r, 70, 2.0f, 0.5f});
  const std::vector<float> largest(attention_tile, 1.5f), log_sum(attention_tile, 2.0f),
      dots(attention_tile, 0.25f);
  const auto compute = [&] {
    std::vector<float> s = scores(3), dp = scores(4);
    const std::vector<float> factors = scores(5);
    dp[3] = not_a_number;
    std::vector<bfloat16> p(3 * attention_tile * leading, bfloat16(7.0f));
    bfloat16 *const ds = p.data() + attention_tile * leading, *const out = ds + attention_tile * leading;
    const auto& kernels = *TESSERA_PER_ISA(attention_rows_bf16)();
    kernels.score_gradients({rows.data(), attention_tile, leading, s.data(), dp.data(), largest.data(),
                             log_sum.data(), dots.data(), factors.data(), p.data(), ds});
    float of_rows[2 * attention_tile];
    kernels.weights({rows.data(), attention_tile, leading, s.data(), factors.data(), out, of_rows,
                     of_rows + attention_tile, nullptr, true});
    return p;
  };
  const std::vector<bfloat16> best = compute();
  CHECK((best[attention_tile * leading + 3].bits & 0x7fff) > 0x7f80);
  const IsaScope scope(Isa::avx2);
  const std::vector<bfloat16> other = compute();
  for (int64_t r = 0; r < 3 * attention_tile; ++r)
    for (int64_t i = 0; i < 70; ++i) REQUIRE(best[r * leading + i].bits == other[r * leading + i].bits);
}
