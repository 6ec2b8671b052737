// Arithmetic of f32 and f64 in all roundings against exact arithmetic.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim::testing;

namespace {

/// 113 bits. With its rounding error beside it, a sum is exact.
__extension__ using Wide = __float128;

constexpr size_t rows = 4000;

enum class Mode { nearest, zero, down, up };
constexpr std::pair<const char*, Mode> modes[] = {
    {".rn", Mode::nearest}, {".rz", Mode::zero}, {".rm", Mode::down}, {".rp", Mode::up}};

template <class T>
std::string type() {
  return sizeof(T) == 4 ? ".f32" : ".f64";
}

template <class T>
bool is_finite(T x) {
  return x - x == 0;
}

/// value + rest, rounded once to T. `value` is finite, `rest` small beside it.
template <class T>
T rounded(Wide value, Wide rest, Mode mode) {
  T nearest = static_cast<T>(value);
  constexpr T greatest = std::numeric_limits<T>::max(), infinity = std::numeric_limits<T>::infinity();
  if (mode == Mode::nearest) return nearest;  // the rest decides only on ties: see exact_sum
  const bool is_exact_negative = value != 0 ? value < 0 : rest < 0;
  const bool goes_down = mode == Mode::down || (mode == Mode::zero && !is_exact_negative);
  const bool is_above =
      nearest == infinity || (nearest != -infinity && (static_cast<Wide>(nearest) - value) - rest > 0);
  const bool is_below =
      nearest == -infinity || (nearest != infinity && (static_cast<Wide>(nearest) - value) - rest < 0);
  if (goes_down && is_above) return nearest == infinity ? greatest : std::nextafter(nearest, -infinity);
  if (!goes_down && is_below) return nearest == -infinity ? -greatest : std::nextafter(nearest, infinity);
  return nearest;
}

/// a + b of wide numbers and its error (Knuth).
std::pair<Wide, Wide> exact_sum(Wide a, Wide b) {
  const Wide sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// An exact zero has the sign that the mode gives to it; those rows are left to another test.
template <class T, class Exact, class... S>
void check(const std::string& instruction, Mode mode, Exact exact, const std::vector<S>&... operands) {
  CHECK(differences<T>(
            instruction + type<T>(),
            [=](auto... x) {
              const auto [value, rest] = exact(x...);
              return rounded<T>(value, rest, mode);
            },
            operands...) == 0);
}

/// Finite operands of which the result is no exact zero.
template <class T, class Keep>
std::array<std::vector<T>, 3> operands(Keep keep) {
  const auto a = floats<T>(rows, 1), b = floats<T>(rows, 2), c = floats<T>(rows, 3);
  std::array<std::vector<T>, 3> kept;
  for (size_t i = 0; i < rows; ++i) {
    if (!is_finite(a[i]) || !is_finite(b[i]) || !is_finite(c[i]) || !keep(a[i], b[i], c[i])) continue;
    kept[0].push_back(a[i]);
    kept[1].push_back(b[i]);
    kept[2].push_back(c[i]);
  }
  REQUIRE(kept[0].size() > rows / 8);
  return kept;
}

template <class T>
void check_rounding() {
  const auto sums = operands<T>([](T a, T b, T) { return Wide{a} + b != 0 && Wide{a} - b != 0; });
  const auto products = operands<T>([](T a, T b, T c) { return a != 0 && b != 0 && Wide{a} * b + c != 0; });
  for (const auto& [name, mode] : modes) {
    check<T>(
        std::string("add") + name, mode, [](T a, T b) { return exact_sum(a, b); }, sums[0], sums[1]);
    check<T>(
        std::string("sub") + name, mode, [](T a, T b) { return exact_sum(a, -Wide{b}); }, sums[0], sums[1]);
    check<T>(
        std::string("mul") + name, mode,
        [](T a, T b) {
          return std::pair{Wide{a} * b, Wide{0}};
        },
        products[0], products[1]);
    // A quotient of two T lies further from the next T, or the middle of two, than 113 bits reach.
    check<T>(
        std::string("div") + name, mode,
        [](T a, T b) {
          return std::pair{Wide{a} / b, Wide{0}};
        },
        products[0], products[1]);
    check<T>(
        std::string("rcp") + name, mode,
        [](T a) {
          return std::pair{1 / Wide{a}, Wide{0}};
        },
        products[0]);
    if (mode != Mode::nearest)
      check<T>(
          std::string("fma") + name, mode, [](T a, T b, T c) { return exact_sum(Wide{a} * b, c); },
          products[0], products[1], products[2]);
  }
}

/// The square root: r * r <= a < next * next, exactly.
template <class T>
void check_roots() {
  std::vector<T> a;
  for (const T x : floats<T>(rows, 4))
    if (is_finite(x) && x > std::numeric_limits<T>::min()) a.push_back(x);
  const T infinity = std::numeric_limits<T>::infinity();
  const auto down = apply<T>("sqrt.rm" + type<T>(), a), up = apply<T>("sqrt.rp" + type<T>(), a),
             zero = apply<T>("sqrt.rz" + type<T>(), a), nearest = apply<T>("sqrt.rn" + type<T>(), a);
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Wide r = down[i], next = std::nextafter(down[i], infinity), x = a[i];
    const bool is_exact = r * r == x;
    wrong += !(r * r <= x && next * next > x);
    wrong += up[i] != (is_exact ? down[i] : static_cast<T>(next));
    wrong += zero[i] != down[i];
    const Wide middle = (r + next) / 2;
    wrong += nearest[i] != static_cast<T>(middle * middle > x ? r : next);
  }
  CHECK(wrong == 0);
}

template <class T>
void check_special_values() {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const auto a = floats<T>(rows, 5), b = floats<T>(rows, 6), c = floats<T>(rows, 7);
  CHECK(differences<T>(
            "add" + type<T>(), [](T x, T y) { return x + y; }, a, b) == 0);
  CHECK(differences<T>(
            "sub" + type<T>(), [](T x, T y) { return x - y; }, a, b) == 0);
  CHECK(differences<T>(
            "mul" + type<T>(), [](T x, T y) { return x * y; }, a, b) == 0);
  CHECK(differences<T>(
            "div.rn" + type<T>(), [](T x, T y) { return x / y; }, a, b) == 0);
  CHECK(differences<T>(
            "fma.rn" + type<T>(), [](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c) == 0);
  CHECK(differences<T>(
            "mad.rn" + type<T>(), [](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c) == 0);
  CHECK(differences<T>(
            "neg" + type<T>(), [](T x) { return -x; }, a) == 0);
  CHECK(differences<T>(
            "abs" + type<T>(), [](T x) { return std::fabs(x); }, a) == 0);
  CHECK(differences<T>(
            "copysign" + type<T>(), [](T x, T y) { return std::copysign(y, x); }, a, b) == 0);
  // A NaN is no operand; -0 is less than +0.
  const std::vector<T> x = {nan, 1, nan, 0, -T{0}, infinity, -1, 2},
                       y = {1, nan, nan, -T{0}, 0, 3, -infinity, 1};
  const std::vector<T> least = {1, 1, nan, -T{0}, -T{0}, 3, -infinity, 1},
                       most = {1, 1, nan, 0, 0, infinity, -1, 2};
  size_t row = 0;
  CHECK(differences<T>(
            "min" + type<T>(), [&](T, T) { return least[row++]; }, x, y) == 0);
  row = 0;
  CHECK(differences<T>(
            "max" + type<T>(), [&](T, T) { return most[row++]; }, x, y) == 0);
  // x + -x is +0, downwards -0.
  const std::vector<T> one = {1, -3}, other = {-1, 3};
  CHECK(differences<T>(
            "add.rn" + type<T>(), [](T, T) { return T{0}; }, one, other) == 0);
  CHECK(differences<T>(
            "add.rm" + type<T>(), [](T, T) { return -T{0}; }, one, other) == 0);
}

template <class T>
void check_tests() {
  const auto a = floats<T>(rows, 8);
  const auto check_one = [&](const std::string& name, auto expected) {
    CHECK(differences<uint32_t>(
              "testp." + name + type<T>() + " %p, %a; selp.u32 %d, 1, 0, %p;",
              [=](T x) { return static_cast<uint32_t>(expected(std::fpclassify(x))); }, a) == 0);
  };
  check_one("finite", [](int kind) { return kind != FP_NAN && kind != FP_INFINITE; });
  check_one("infinite", [](int kind) { return kind == FP_INFINITE; });
  check_one("number", [](int kind) { return kind != FP_NAN; });
  check_one("notanumber", [](int kind) { return kind == FP_NAN; });
  check_one("normal", [](int kind) { return kind == FP_NORMAL; });
  check_one("subnormal", [](int kind) { return kind == FP_SUBNORMAL; });
}

float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float saturated(float x) {
  return std::isnan(x) || x <= 0 ? 0.0f : x > 1 ? 1.0f : x;
}

}  // namespace

TEST_CASE("instructions: f32 and f64 round once, in each direction") {
  check_rounding<float>();
  check_rounding<double>();
}

TEST_CASE("instructions: square roots in each direction") {
  check_roots<float>();
  check_roots<double>();
}

TEST_CASE("instructions: arithmetic of infinities, NaN, zeros and subnormals") {
  check_special_values<float>();
  check_special_values<double>();
}

TEST_CASE("instructions: testp") {
  check_tests<float>();
  check_tests<double>();
}

TEST_CASE("instructions: .ftz flushes operands and results, .sat clamps") {
  const auto a = floats<float>(rows, 9), b = floats<float>(rows, 10), c = floats<float>(rows, 11);
  const auto f = flushed;
  CHECK(differences<float>(
            "add.ftz.f32", [=](float x, float y) { return f(f(x) + f(y)); }, a, b) == 0);
  CHECK(differences<float>(
            "sub.ftz.f32", [=](float x, float y) { return f(f(x) - f(y)); }, a, b) == 0);
  CHECK(differences<float>(
            "mul.ftz.f32", [=](float x, float y) { return f(f(x) * f(y)); }, a, b) == 0);
  CHECK(differences<float>(
            "fma.rn.ftz.f32", [=](float x, float y, float z) { return f(std::fma(f(x), f(y), f(z))); }, a, b,
            c) == 0);
  CHECK(differences<float>(
            "div.rn.ftz.f32", [=](float x, float y) { return f(f(x) / f(y)); }, a, b) == 0);
  CHECK(differences<float>(
            "sqrt.rn.ftz.f32", [=](float x) { return std::sqrt(f(x)); }, a) == 0);
  CHECK(differences<float>(
            "rcp.rn.ftz.f32", [=](float x) { return f(1 / f(x)); }, a) == 0);
  CHECK(differences<float>(
            "abs.ftz.f32", [=](float x) { return f(std::fabs(x)); }, a) == 0);
  CHECK(differences<float>(
            "neg.ftz.f32", [=](float x) { return f(-x); }, a) == 0);
  const auto s = saturated;
  CHECK(differences<float>(
            "add.sat.f32", [=](float x, float y) { return s(x + y); }, a, b) == 0);
  CHECK(differences<float>(
            "mul.sat.f32", [=](float x, float y) { return s(x * y); }, a, b) == 0);
  CHECK(differences<float>(
            "fma.rn.sat.f32", [=](float x, float y, float z) { return s(std::fma(x, y, z)); }, a, b, c) == 0);
  CHECK(differences<float>(
            "fma.rn.ftz.sat.f32", [=](float x, float y, float z) { return s(f(std::fma(f(x), f(y), f(z)))); },
            a, b, c) == 0);
}

TEST_CASE("instructions: min and max with .NaN and .xorsign.abs") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = floats<float>(rows, 12), b = floats<float>(rows, 13);
  const auto is_any_nan = [](float x, float y) { return std::isnan(x) || std::isnan(y); };
  CHECK(differences<float>(
            "min.NaN.f32",
            [&](float x, float y) {
              return is_any_nan(x, y) ? nan : x < y || (x == y && std::signbit(x)) ? x : y;
            },
            a, b) == 0);
  CHECK(differences<float>(
            "max.NaN.f32",
            [&](float x, float y) {
              return is_any_nan(x, y) ? nan : x > y || (x == y && !std::signbit(x)) ? x : y;
            },
            a, b) == 0);
  const std::vector<float> x = {-3, 3, -2, 2}, y = {2, -5, -7, 7};
  CHECK(apply<float>("min.xorsign.abs.f32", x, y) == std::vector<float>{-2, -3, 2, 2});
  CHECK(apply<float>("max.xorsign.abs.f32", x, y) == std::vector<float>{-3, -5, 7, 7});
}

TEST_CASE("instructions: the approximate ones of f64 give 32 bits") {
  const std::vector<double> a = {3.0, -0.1, 1e300, 1e-310};
  const auto reciprocals = apply<double>("rcp.approx.ftz.f64", a),
             roots = apply<double>("rsqrt.approx.ftz.f64", a);
  for (size_t i = 0; i < 3; ++i) {
    CHECK((std::bit_cast<uint64_t>(reciprocals[i]) & 0xffffffffu) == 0);
    CHECK(reciprocals[i] == doctest::Approx(1 / a[i]).epsilon(1e-5));
  }
  CHECK(std::isinf(reciprocals[3]));  // a subnormal is flushed
  CHECK(roots[0] == doctest::Approx(1 / std::sqrt(3.0)).epsilon(1e-5));
  CHECK(std::isnan(roots[1]));
}

TEST_CASE("instructions: div.approx is a product with a reciprocal that may be flushed") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {1, 6, infinity, 1, -1}, b = {4, 3, 0x1p127f, 0x1.8p126f, 0x1.8p126f};
  const auto results = apply<float>("div.approx.f32", a, b);
  CHECK(results[0] == 0.25f);
  CHECK(results[1] == 2.0f);
  CHECK(std::isnan(results[2]));
  CHECK(results[3] == 0);
  CHECK(results[4] == 0);
  CHECK(apply<float>("div.full.f32", a, b)[3] == 1 / 0x1.8p126f);
}
