// setp, set, selp, slct.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/half_formats.h"

using namespace tessera::cuda_sim::testing;

namespace {

constexpr size_t rows = 1000;

template <class T>
std::string name() {
  if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? ".f32" : ".f64";
  else
    return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

/// PTX ISA, "Comparisons": whether a op b.
template <class T>
bool holds(const std::string& op, T a, T b) {
  const bool any_nan = a != a || b != b;
  if (op == "num") return !any_nan;
  if (op == "nan") return any_nan;
  // A third letter u: true with a NaN; else false, ne too.
  if (any_nan) return op.size() == 3;
  const std::string base = op == "lo"   ? "lt"
                           : op == "ls" ? "le"
                           : op == "hi" ? "gt"
                           : op == "hs" ? "ge"
                                        : op.substr(0, 2);
  return base == "eq"   ? a == b
         : base == "ne" ? a != b
         : base == "lt" ? a < b
         : base == "le" ? a <= b
         : base == "gt" ? a > b
                        : a >= b;
}

const std::vector<std::string> of_signed = {"eq", "ne", "lt", "le", "gt", "ge"};
const std::vector<std::string> of_unsigned = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
const std::vector<std::string> of_floats = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

template <class T>
std::vector<T> values(uint32_t seed) {
  if constexpr (std::is_floating_point_v<T>)
    return floats<T>(rows, seed);
  else
    return integers<T>(rows, seed);
}

template <class T>
void check_setp(const std::vector<std::string>& operators) {
  const auto a = values<T>(1), b = values<T>(2);
  for (const std::string& op : operators)
    CHECK(differences<uint32_t>(
              "setp." + op + name<T>() + " %p, %a, %b; selp.u32 %d, 1, 0, %p;",
              [&](T x, T y) { return uint32_t{holds(op, x, y)}; }, a, b) == 0);
}

}  // namespace

TEST_CASE("instructions: setp with every operator and type") {
  check_setp<int16_t>(of_signed);
  check_setp<int32_t>(of_signed);
  check_setp<int64_t>(of_signed);
  check_setp<uint16_t>(of_unsigned);
  check_setp<uint32_t>(of_unsigned);
  check_setp<uint64_t>(of_unsigned);
  check_setp<float>(of_floats);
  check_setp<double>(of_floats);
}

TEST_CASE("instructions: setp combined with a predicate, and its second result") {
  const auto a = integers<int32_t>(rows, 3), b = integers<int32_t>(rows, 4), c = integers<int32_t>(rows, 5);
  for (const std::string op : {"and", "or", "xor"})
    for (const bool is_negated : {false, true})
      CHECK(differences<uint32_t>(
                "setp.gt.s32 %t, %c, 40; setp.lt." + op + ".s32 %p|%q, %a, %b, " + (is_negated ? "!" : "") +
                    "%t; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;",
                [&](int32_t x, int32_t y, int32_t z) {
                  const bool third = (z > 40) != is_negated;
                  const auto combined = [&](bool first) {
                    return op == "and" ? first && third : op == "or" ? first || third : first != third;
                  };
                  return uint32_t{combined(x < y)} + 2 * uint32_t{combined(!(x < y))};
                },
                a, b, c) == 0);
}

TEST_CASE("instructions: setp and set of halves") {
  const auto a = integers<uint32_t>(rows, 6), b = integers<uint32_t>(rows, 7);
  std::vector<uint16_t> x(a.begin(), a.end()), y(b.begin(), b.end());
  for (const std::string& op : of_floats) {
    for (const SmallFormat& format : {f16, bf16}) {
      const std::string type = format.bias == 15 ? "f16" : "bf16";
      const auto compare = [&](uint32_t p, uint32_t q) {
        return holds(op, value_of(format, p & 0xffff), value_of(format, q & 0xffff));
      };
      CHECK(differences<uint32_t>(
                "setp." + op + "." + type + " %p, %a, %b; selp.u32 %d, 1, 0, %p;",
                [&](uint16_t p, uint16_t q) { return uint32_t{compare(p, q)}; }, x, y) == 0);
      CHECK(differences<uint32_t>(
                "setp." + op + "." + type + "x2 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;",
                [&](uint32_t p, uint32_t q) {
                  return uint32_t{compare(p, q)} + 2 * uint32_t{compare(p >> 16, q >> 16)};
                },
                a, b) == 0);
      const uint32_t one = format.bias == 15 ? 0x3c00 : 0x3f80;
      CHECK(differences<uint16_t>(
                "set." + op + "." + type + "." + type,
                [&](uint16_t p, uint16_t q) { return static_cast<uint16_t>(compare(p, q) ? one : 0); }, x,
                y) == 0);
      CHECK(differences<uint32_t>(
                "set." + op + "." + type + "x2." + type + "x2",
                [&](uint32_t p, uint32_t q) {
                  return (compare(p, q) ? one : 0) | (compare(p >> 16, q >> 16) ? one << 16 : 0);
                },
                a, b) == 0);
      CHECK(differences<uint32_t>(
                "set." + op + ".u32." + type + "x2",
                [&](uint32_t p, uint32_t q) {
                  return (compare(p, q) ? 0xffffu : 0) | (compare(p >> 16, q >> 16) ? 0xffff0000u : 0);
                },
                a, b) == 0);
    }
  }
}

TEST_CASE("instructions: set gives ones or 1.0") {
  const auto a = floats<float>(rows, 8), b = floats<float>(rows, 9);
  const auto i = integers<int32_t>(rows, 10), j = integers<int32_t>(rows, 11);
  CHECK(differences<uint32_t>(
            "set.lt.u32.f32", [](float x, float y) { return x < y ? ~0u : 0u; }, a, b) == 0);
  CHECK(differences<float>(
            "set.geu.f32.f32", [](float x, float y) { return x < y ? 0.0f : 1.0f; }, a, b) == 0);
  CHECK(differences<float>(
            "set.le.f32.s32", [](int32_t x, int32_t y) { return x <= y ? 1.0f : 0.0f; }, i, j) == 0);
  CHECK(differences<uint32_t>(
            "setp.gt.f32 %p, %a, 0f3F800000; set.lt.and.s32.f32 %d, %a, %b, !%p;",
            [](float x, float y) { return x < y && !(x > 1) ? ~0u : 0u; }, a, b) == 0);
}

TEST_CASE("instructions: .ftz makes subnormals equal to zero") {
  const std::vector<float> a = {1e-40f, -1e-40f, 1e-40f}, b = {0, 0, 1e-30f};
  CHECK(evaluate<uint32_t>("setp.eq.ftz.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", a, b) ==
        std::vector<uint32_t>{1, 1, 0});
  CHECK(evaluate<uint32_t>("setp.eq.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", a, b) ==
        std::vector<uint32_t>{0, 0, 0});
}

TEST_CASE("instructions: selp and slct") {
  const auto check = [](auto one, const std::string& width) {
    using T = decltype(one);
    const auto a = integers<T>(rows, 12), b = integers<T>(rows, 13);
    const auto c = integers<int32_t>(rows, 14);
    const auto f = floats<float>(rows, 15);
    CHECK(differences<T>(
              "setp.lt.s32 %p, %c, 30; selp.b" + width + " %d, %a, %b, %p;",
              [](T x, T y, int32_t z) { return z < 30 ? x : y; }, a, b, c) == 0);
    CHECK(differences<T>(
              "slct.b" + width + ".s32", [](T x, T y, int32_t z) { return z >= 0 ? x : y; }, a, b, c) == 0);
    CHECK(differences<T>(
              "slct.u" + width + ".f32", [](T x, T y, float z) { return z >= 0 ? x : y; }, a, b, f) == 0);
    CHECK(differences<T>(
              "slct.ftz.u" + width + ".f32",
              [](T x, T y, float z) { return z >= 0 || std::fabs(z) < 0x1p-126f ? x : y; }, a, b, f) == 0);
  };
  check(uint16_t{}, "16");
  check(uint32_t{}, "32");
  check(uint64_t{}, "64");
}
