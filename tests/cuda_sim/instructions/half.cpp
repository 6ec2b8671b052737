// f16 and bf16: arithmetic against exact values rounded by search among all 2^16 numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/half_formats.h"

using namespace tessera::cuda_sim::testing;

namespace {

constexpr size_t rows = 3000;

/// Codes: every sixth an edge, the others random.
std::vector<uint16_t> codes(uint32_t seed) {
  constexpr uint16_t edges[] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x3c00, 0x3f80, 0x7bff,
                                0x7c00, 0xfc00, 0x7e00, 0x7f7f, 0x7f80, 0xff80, 0x7fff, 0x007f, 0x0080};
  std::mt19937 random(seed);
  std::vector<uint16_t> result;
  for (size_t i = 0; i < rows; ++i) {
    const uint32_t bits = random();
    result.push_back(i % 6 == 0 ? edges[bits % std::size(edges)] : static_cast<uint16_t>(bits));
  }
  return result;
}

/// Codes of ordinary size, so that sums and products meet.
std::vector<uint16_t> near_one(const SmallFormat& format, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> result;
  for (size_t i = 0; i < rows; ++i) {
    const uint32_t bits = random();
    const auto x =
        static_cast<double>(static_cast<int32_t>(bits)) * std::ldexp(1.0, -30 - static_cast<int>(bits % 8));
    result.push_back(static_cast<uint16_t>(round_to(format, x)));
  }
  return result;
}

std::vector<uint32_t> pairs(const std::vector<uint16_t>& upper, const std::vector<uint16_t>& lower) {
  std::vector<uint32_t> result;
  for (size_t i = 0; i < upper.size(); ++i)
    result.push_back(static_cast<uint32_t>(upper[i]) << 16 | lower[i]);
  return result;
}

struct Kind {
  SmallFormat format;
  std::string one, two;  ///< types
};
const Kind kinds[] = {{f16, ".f16", ".f16x2"}, {bf16, ".bf16", ".bf16x2"}};

/// The instruction for single values and packed ones against `expected`, which computes on doubles.
template <class Expected, class... Codes>
void check(const Kind& kind, const std::string& instruction, Expected expected, const Codes&... operands) {
  const auto of_codes = [&](auto... code) {
    return static_cast<uint16_t>(round_to(kind.format, expected(value_of(kind.format, code)...)));
  };
  CHECK(differences<uint16_t>(instruction + kind.one, of_codes, operands...) == 0);
  const auto of_pairs = [&](auto... packed) {
    const auto half = [&](int shift) {
      return uint32_t{of_codes(static_cast<uint16_t>(packed >> shift)...)};
    };
    return half(16) << 16 | half(0);
  };
  // The lower halves are the upper ones of another order.
  const auto reversed = [](std::vector<uint16_t> values) {
    std::reverse(values.begin(), values.end());
    return values;
  };
  CHECK(differences<uint32_t>(instruction + kind.two, of_pairs, pairs(operands, reversed(operands))...) == 0);
}

void check_arithmetic(const Kind& kind, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                      const std::vector<uint16_t>& c) {
  // Doubles hold products exactly; of sums `exact_sum` keeps what is cut off in the last bit.
  check(
      kind, "add", [](double x, double y) { return sum_to_odd(x, y); }, a, b);
  check(
      kind, "sub", [](double x, double y) { return sum_to_odd(x, -y); }, a, b);
  check(
      kind, "mul", [](double x, double y) { return x * y; }, a, b);
  check(
      kind, "fma.rn", [](double x, double y, double z) { return sum_to_odd(x * y, z); }, a, b, c);
  check(
      kind, "fma.rn.relu",
      [](double x, double y, double z) {
        const double d = sum_to_odd(x * y, z);
        return d < 0 ? 0.0 : d;
      },
      a, b, c);
}

}  // namespace

TEST_CASE("instructions: arithmetic of f16 and bf16 rounds once") {
  for (const Kind& kind : kinds) {
    check_arithmetic(kind, codes(1), codes(2), codes(3));
    check_arithmetic(kind, near_one(kind.format, 4), near_one(kind.format, 5), near_one(kind.format, 6));
  }
}

TEST_CASE("instructions: min, max, neg, abs of f16 and bf16") {
  for (const Kind& kind : kinds) {
    const auto a = codes(7), b = codes(8);
    const auto least = [](double x, double y) {
      return std::isnan(x) ? y : std::isnan(y) ? x : x < y || (x == y && std::signbit(x)) ? x : y;
    };
    const auto most = [](double x, double y) {
      return std::isnan(x) ? y : std::isnan(y) ? x : x > y || (x == y && !std::signbit(x)) ? x : y;
    };
    check(kind, "min", least, a, b);
    check(kind, "max", most, a, b);
    check(
        kind, "min.NaN",
        [=](double x, double y) {
          return std::isnan(x + y) && (std::isnan(x) || std::isnan(y)) ? NAN : least(x, y);
        },
        a, b);
    check(
        kind, "max.NaN",
        [=](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : most(x, y); }, a, b);
    CHECK(differences<uint16_t>(
              "neg" + kind.one, [](uint16_t x) { return static_cast<uint16_t>(x ^ 0x8000); }, a) == 0);
    CHECK(differences<uint16_t>(
              "abs" + kind.one, [](uint16_t x) { return static_cast<uint16_t>(x & 0x7fff); }, a) == 0);
    CHECK(differences<uint32_t>(
              "neg" + kind.two, [](uint32_t x) { return x ^ 0x80008000u; }, pairs(a, b)) == 0);
    CHECK(differences<uint32_t>(
              "abs" + kind.two, [](uint32_t x) { return x & 0x7fff7fffu; }, pairs(a, b)) == 0);
  }
}

TEST_CASE("instructions: .ftz and .sat of f16") {
  const Kind& kind = kinds[0];
  const auto a = codes(9), b = codes(10), c = codes(11);
  const auto flushed = [](double x) { return std::fabs(x) < 0x1p-14 ? std::copysign(0.0, x) : x; };
  const auto saturated = [](double x) { return std::isnan(x) || x <= 0 ? 0.0 : std::min(x, 1.0); };
  check(
      kind, "add.sat", [=](double x, double y) { return saturated(sum_to_odd(x, y)); }, a, b);
  check(
      kind, "mul.sat", [=](double x, double y) { return saturated(x * y); }, a, b);
  check(
      kind, "fma.rn.sat", [=](double x, double y, double z) { return saturated(sum_to_odd(x * y, z)); }, a, b,
      c);
  // A result is flushed after it was rounded.
  const auto rounded = [&](double x) { return flushed(value_of(f16, round_to(f16, x))); };
  check(
      kind, "add.ftz", [=](double x, double y) { return rounded(sum_to_odd(flushed(x), flushed(y))); }, a, b);
  check(
      kind, "mul.ftz", [=](double x, double y) { return rounded(flushed(x) * flushed(y)); }, a, b);
  check(
      kind, "fma.rn.ftz",
      [=](double x, double y, double z) { return rounded(sum_to_odd(flushed(x) * flushed(y), flushed(z))); },
      a, b, c);
}

TEST_CASE("instructions: ex2.approx and tanh.approx of f16 and bf16, every value") {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Kind& kind : kinds) {
    check(
        kind, "tanh.approx", [](double x) { return std::tanh(x); }, all);
    check(
        kind, kind.one == ".f16" ? "ex2.approx" : "ex2.approx.ftz",
        [&](double x) {
          const bool flushes = kind.one == ".bf16";
          const double d = std::exp2(flushes && std::fabs(x) < 0x1p-126 ? 0 : x);
          return flushes && value_of(kind.format, round_to(kind.format, d)) < 0x1p-126 ? 0.0 : d;
        },
        all);
  }
}
