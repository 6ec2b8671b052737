// The elementwise functions against the C library in a wider format, over sweeps of their whole domain.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "tensor/elementwise/erf.h"
#include "tensor/elementwise/gelu.h"
#include "tensor/elementwise/hyperbolic.h"
#include "tensor/elementwise/power.h"
#include "tensor/elementwise/trigonometric.h"
#include "tensor/threads/parallel.h"

namespace {

namespace ours = tessera::elementwise;

constexpr float inf_f = std::numeric_limits<float>::infinity();
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_d = std::numeric_limits<double>::quiet_NaN();

/// The distance from `got` to the exact value in units of the last place of T at that value. Results below
/// the normal numbers count as 0, since they may be flushed.
template <class T>
double error_in_ulps(T got, long double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : inf;
  if (std::fabs(exact) > std::numeric_limits<T>::max())
    return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : 1;
  if (std::fabs(exact) < std::numeric_limits<T>::min())
    return std::fabs(got) <= std::numeric_limits<T>::min() ? 0 : inf;
  int exponent;
  std::frexp(exact, &exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / ulp);
}

/// By the bits: in a computing thread, comparisons treat subnormal numbers as 0.
template <class T>
bool is_subnormal(T x) {
  const auto bits = ours::bits_of(x) << 1;
  return bits != 0 && bits < ours::bits_of(std::numeric_limits<T>::min()) << 1;
}

/// The worst error over floats with bits `step` apart, both signs, between low and high.
template <class Function, class Reference>
double worst_f32(float low, float high, Function function, Reference reference, uint32_t step = 4099) {
  double worst = 0;
  for (uint64_t bits = 0; bits <= 0xffffffffull; bits += step) {
    const float x = __builtin_bit_cast(float, static_cast<uint32_t>(bits));
    if (!(x >= low && x <= high) || is_subnormal(x)) continue;
    worst = std::max(worst,
                     error_in_ulps(function(x), static_cast<long double>(reference(static_cast<double>(x)))));
  }
  return worst;
}

/// The worst error over 400,000 doubles: half evenly spaced in value, half in the bits (so over all
/// exponents).
template <class Function, class Reference>
double worst_f64(double low, double high, Function function, Reference reference) {
  double worst = 0;
  const auto visit = [&](double x) {
    if (x >= low && x <= high && !is_subnormal(x))
      worst = std::max(worst, error_in_ulps(function(x), reference(static_cast<long double>(x))));
  };
  const int count = 200000;
  const double from = std::max(low, -1000.0), to = std::min(high, 1000.0);
  for (int i = 0; i <= count; ++i) visit(from + (to - from) * (i / static_cast<double>(count)));
  for (int i = 0; i <= count; ++i)
    visit(__builtin_bit_cast(double, static_cast<uint64_t>(i) * (~0ull / count)));
  return worst;
}

/// Every test here runs as kernels do: subnormal numbers are flushed.
struct ComputeThread {
  tessera::FlushDenormals flushed;
};

}  // namespace

#define CHECK_F32(function, low, high, bound)                     \
  CHECK(worst_f32(                                                \
            low, high, [](float x) { return ours::function(x); }, \
            [](double x) { return std::function(x); }) < bound)
#define CHECK_F64(function, low, high, bound)                      \
  CHECK(worst_f64(                                                 \
            low, high, [](double x) { return ours::function(x); }, \
            [](long double x) { return std::function(x); }) < bound)

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: exponentials") {
  CHECK_F32(exp, -inf_f, inf_f, 1.0);
  CHECK_F32(exp2, -inf_f, inf_f, 1.0);
  CHECK_F32(expm1, -inf_f, inf_f, 1.6);
  CHECK_F64(exp, -inf, inf, 1.0);
  CHECK_F64(exp2, -inf, inf, 1.0);
  CHECK_F64(expm1, -inf, inf, 1.5);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: logarithms") {
  CHECK_F32(log, 0.0f, inf_f, 1.0);
  CHECK_F32(log1p, -1.0f, inf_f, 1.5);
  CHECK_F32(log2, 0.0f, inf_f, 0.51);
  CHECK_F32(log10, 0.0f, inf_f, 0.51);
  CHECK_F64(log, 0.0, inf, 1.0);
  CHECK_F64(log1p, -1.0, inf, 1.0);
  CHECK_F64(log2, 0.0, inf, 2.0);
  CHECK_F64(log10, 0.0, inf, 2.0);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: logarithms near 1") {
  CHECK(worst_f64(
            0.9, 1.1, [](double x) { return ours::log(x); }, [](long double x) { return std::log(x); }) <
        1.0);
  CHECK(worst_f32(
            0.9f, 1.1f, [](float x) { return ours::log(x); }, [](double x) { return std::log(x); }, 7) < 1.0);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: hyperbolic and error functions") {
  CHECK_F32(tanh, -inf_f, inf_f, 1.5);
  CHECK_F64(tanh, -inf, inf, 1.5);
  CHECK_F32(erf, -inf_f, inf_f, 1.5);
  CHECK_F64(erf, -inf, inf, 1.5);
  CHECK_F32(erfc, -inf_f, inf_f, 0.51);
  CHECK_F64(erfc, -inf, inf, 5.0);
  const auto sigmoid = [](long double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(worst_f32(
            -inf_f, inf_f, [](float x) { return ours::sigmoid(x); }, sigmoid) < 2.5);
  CHECK(worst_f64(
            -inf, inf, [](double x) { return ours::sigmoid(x); }, sigmoid) < 2.5);
}

TEST_CASE_FIXTURE(ComputeThread,
                  "elementwise accuracy: GELU and its derivative, absolute errors and the tail") {
  double worst = 0, worst_slope = 0, worst_tail = 0;
  for (int i = -200000; i <= 200000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double exact_x = static_cast<double>(x), cumulative = 0.5 * std::erfc(-exact_x / std::sqrt(2.0));
    const double density = std::exp(-0.5 * exact_x * exact_x) / std::sqrt(2 * std::acos(-1.0));
    const double error = std::fabs(static_cast<double>(ours::gelu(x)) - exact_x * cumulative);
    worst = std::max(worst, error / std::max(1.0, std::fabs(exact_x)));
    worst_slope = std::max(worst_slope, std::fabs(static_cast<double>(ours::gelu_backward(x, 1.0f)) -
                                                  (cumulative + exact_x * density)));
    if (x >= -5.0f && x < -2.0f) worst_tail = std::max(worst_tail, error / -(exact_x * cumulative));
  }
  CHECK(worst < 1e-7);
  CHECK(worst_slope < 1.5e-7);
  CHECK(worst_tail < 2e-3);
  CHECK(ours::gelu(inf_f) == inf_f);
  CHECK(std::isnan(ours::gelu(-inf_f)));
  CHECK(ours::gelu_backward(-inf_f, 1.0f) == 0.0f);
  CHECK(std::isnan(ours::gelu(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: trigonometric functions up to 2^44") {
  CHECK_F32(sin, -0x1p44f, 0x1p44f, 0.51);
  CHECK_F32(cos, -0x1p44f, 0x1p44f, 0.51);
  CHECK_F32(tan, -0x1p44f, 0x1p44f, 0.51);
  CHECK_F64(sin, -0x1p44, 0x1p44, 1.0);
  CHECK_F64(cos, -0x1p44, 0x1p44, 1.0);
  CHECK_F64(tan, -0x1p44, 0x1p44, 2.0);
  for (const double x : {0x1p60, 1e300, -1e22}) CHECK(std::fabs(ours::sin(x)) <= 1);
  CHECK(std::isnan(ours::sin(inf)));
  CHECK(std::isnan(ours::cos(-inf)));
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: square roots") {
  CHECK_F32(sqrt, 0.0f, inf_f, 0.5001);
  CHECK_F64(sqrt, 0.0, inf, 0.5001);
  const auto rsqrt = [](long double x) { return 1 / std::sqrt(x); };
  CHECK(worst_f32(
            0.0f, inf_f, [](float x) { return ours::rsqrt(x); }, rsqrt) < 1.5);
  CHECK(worst_f64(
            0.0, inf, [](double x) { return ours::rsqrt(x); }, rsqrt) < 1.5);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise accuracy: pow") {
  double worst = 0, worst_narrow = 0;
  uint64_t state = 1;
  const auto next = [&state] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (int i = 0; i < 300000; ++i) {
    const double x = std::ldexp(1 + next(), static_cast<int>(next() * 400) - 200),
                 y = (next() - 0.5) * (i % 2 ? 20 : 4);
    worst = std::max(worst, error_in_ulps(ours::pow(x, y), std::pow(static_cast<long double>(x),
                                                                    static_cast<long double>(y))));
    const double near = 1 + (next() - 0.5) * 0.01, large = (next() - 0.5) * 200000;
    worst = std::max(worst, error_in_ulps(ours::pow(near, large), std::pow(static_cast<long double>(near),
                                                                           static_cast<long double>(large))));
    const float a = static_cast<float>(next() * 10), b = static_cast<float>((next() - 0.5) * 60);
    worst_narrow = std::max(
        worst_narrow,
        error_in_ulps(ours::pow(a, b), std::pow(static_cast<long double>(a), static_cast<long double>(b))));
  }
  CHECK(worst < 1.0);
  CHECK(worst_narrow < 0.51);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise: pow has the special cases of IEEE 754") {
  const double values[] = {0.0, -0.0, 0.5, -0.5,  1.0,    -1.0, 2.0,  -2.0,
                           3.0, -3.0, 2.5, 1e300, -1e300, inf,  -inf, nan_d};
  for (const double x : values)
    for (const double y : values) {
      CAPTURE(x);
      CAPTURE(y);
      const double expected = std::pow(x, y), got = ours::pow(x, y);
      if (std::isnan(expected))
        CHECK(std::isnan(got));
      else if (expected == 0 || std::isinf(expected))
        CHECK((got == expected && std::signbit(got) == std::signbit(expected)));
      else
        CHECK(error_in_ulps(got, expected) <= 1);
    }
  CHECK(ours::integer_power<int64_t>(-3, 5) == -243);
  CHECK(ours::integer_power<int64_t>(7, 0) == 1);
  CHECK(ours::integer_power<int32_t>(-1, -3) == -1);
  CHECK(ours::integer_power<int32_t>(2, -1) == 0);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise: infinities, NaN, and arguments outside the domain") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    CHECK(ours::exp(infinity) == infinity);
    CHECK(ours::exp(-infinity) == 0);
    CHECK(ours::expm1(-infinity) == -1);
    CHECK(ours::log(infinity) == infinity);
    CHECK(ours::log(zero) == -infinity);
    CHECK(std::isnan(ours::log(T(-1))));
    CHECK(ours::log1p(T(-1)) == -infinity);
    CHECK(std::isnan(ours::log1p(T(-2))));
    CHECK(ours::tanh(infinity) == 1);
    CHECK(ours::tanh(-infinity) == -1);
    CHECK(ours::erf(-infinity) == -1);
    CHECK(ours::erfc(infinity) == 0);
    CHECK(ours::erfc(-infinity) == 2);
    CHECK(ours::sigmoid(-infinity) == 0);
    CHECK(ours::sigmoid(infinity) == 1);
    CHECK(std::isnan(ours::sqrt(T(-1))));
    CHECK(ours::rsqrt(zero) == infinity);
    for (const T result :
         {ours::exp(nan), ours::exp2(nan), ours::expm1(nan), ours::log(nan), ours::log1p(nan),
          ours::log2(nan), ours::log10(nan), ours::tanh(nan), ours::sigmoid(nan), ours::erf(nan),
          ours::erfc(nan), ours::sin(nan), ours::cos(nan), ours::tan(nan), ours::sqrt(nan), ours::rsqrt(nan)})
      CHECK(std::isnan(result));
    for (const T result : {ours::expm1(-zero), ours::log1p(-zero), ours::tanh(-zero), ours::erf(-zero),
                           ours::sin(-zero), ours::tan(-zero)}) {
      CHECK(result == 0);
      CHECK(std::signbit(result));
    }
  };
  check(0.0f);
  check(0.0);
}

TEST_CASE_FIXTURE(ComputeThread, "elementwise: log2 and log10 are exact at powers of 2 and 10") {
  for (int k = -1000; k <= 1000; k += 7) CHECK(ours::log2(std::ldexp(1.0, k)) == k);
  for (int k = 0; k <= 22; ++k) CHECK(ours::log10(std::pow(10.0, k)) == k);
}
