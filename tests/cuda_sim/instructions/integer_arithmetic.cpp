// Integer arithmetic against 128-bit arithmetic.
#include <doctest/doctest.h>

#include "tests/cuda_sim/instructions/evaluate.h"

using namespace tessera::cuda_sim::testing;

namespace {

__extension__ using Wide = __int128;

constexpr size_t rows = 1000;

template <class T>
std::string name() {
  return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

/// The mathematical result, cut to T.
template <class T, class Op>
void check_binary(const std::string& instruction, Op op) {
  CHECK(differences<T>(
            instruction + name<T>(), [=](T a, T b) { return static_cast<T>(op(Wide{a}, Wide{b})); },
            integers<T>(rows, 1), integers<T>(rows, 2)) == 0);
}

template <class T>
void check_all_of_a_type() {
  constexpr int bits = 8 * sizeof(T);
  check_binary<T>("add", [](Wide a, Wide b) { return a + b; });
  check_binary<T>("sub", [](Wide a, Wide b) { return a - b; });
  check_binary<T>("mul.lo", [](Wide a, Wide b) { return a * b; });
  check_binary<T>("mul.hi", [](Wide a, Wide b) { return a * b >> bits; });
  check_binary<T>("min", [](Wide a, Wide b) { return a < b ? a : b; });
  check_binary<T>("max", [](Wide a, Wide b) { return a < b ? b : a; });
  check_binary<T>("div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
  check_binary<T>("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
  const auto a = integers<T>(rows, 3), b = integers<T>(rows, 4), c = integers<T>(rows, 5);
  CHECK(differences<T>(
            "mad.lo" + name<T>(), [](T x, T y, T z) { return static_cast<T>(Wide{x} * y + z); }, a, b, c) ==
        0);
  CHECK(differences<T>(
            "mad.hi" + name<T>(), [](T x, T y, T z) { return static_cast<T>((Wide{x} * y >> bits) + z); }, a,
            b, c) == 0);
  CHECK(differences<T>(
            "sad" + name<T>(),
            [](T x, T y, T z) { return static_cast<T>((x < y ? Wide{y} - x : Wide{x} - y) + z); }, a, b,
            c) == 0);
  if constexpr (std::is_signed_v<T>) {
    CHECK(differences<T>(
              "neg" + name<T>(), [](T x) { return static_cast<T>(-Wide{x}); }, a) == 0);
    CHECK(differences<T>(
              "abs" + name<T>(), [](T x) { return static_cast<T>(x < 0 ? -Wide{x} : Wide{x}); }, a) == 0);
  }
}

template <class T, class Twice>
void check_wide() {
  const auto a = integers<T>(rows, 6), b = integers<T>(rows, 7);
  const auto c = integers<Twice>(rows, 8);
  CHECK(differences<Twice>(
            "mul.wide" + name<T>(), [](T x, T y) { return static_cast<Twice>(Wide{x} * y); }, a, b) == 0);
  CHECK(differences<Twice>(
            "mad.wide" + name<T>(), [](T x, T y, Twice z) { return static_cast<Twice>(Wide{x} * y + z); }, a,
            b, c) == 0);
}

/// The lowest 24 bits, with their sign where T has one.
template <class T>
Wide of_24_bits(T x) {
  const Wide low = static_cast<uint32_t>(x) & 0xffffffu;
  return std::is_signed_v<T> && low >= 0x800000 ? low - 0x1000000 : low;
}

template <class T>
void check_24() {
  const auto a = integers<T>(rows, 9), b = integers<T>(rows, 10), c = integers<T>(rows, 11);
  const std::string type = name<T>();
  CHECK(differences<T>(
            "mul24.lo" + type, [](T x, T y) { return static_cast<T>(of_24_bits(x) * of_24_bits(y)); }, a,
            b) == 0);
  CHECK(differences<T>(
            "mul24.hi" + type, [](T x, T y) { return static_cast<T>(of_24_bits(x) * of_24_bits(y) >> 16); },
            a, b) == 0);
  CHECK(differences<T>(
            "mad24.lo" + type,
            [](T x, T y, T z) { return static_cast<T>(of_24_bits(x) * of_24_bits(y) + z); }, a, b, c) == 0);
  CHECK(differences<T>(
            "mad24.hi" + type,
            [](T x, T y, T z) { return static_cast<T>((of_24_bits(x) * of_24_bits(y) >> 16) + z); }, a, b,
            c) == 0);
}

int64_t part(uint32_t x, int bits, int i, bool is_signed) {
  const auto value = static_cast<int64_t>(x >> (bits * i) & ((1u << bits) - 1));
  return is_signed && value >= 1 << (bits - 1) ? value - (1 << bits) : value;
}

}  // namespace

TEST_CASE("instructions: integer arithmetic of all types") {
  check_all_of_a_type<int16_t>();
  check_all_of_a_type<uint16_t>();
  check_all_of_a_type<int32_t>();
  check_all_of_a_type<uint32_t>();
  check_all_of_a_type<int64_t>();
  check_all_of_a_type<uint64_t>();
}

TEST_CASE("instructions: products of twice the width") {
  check_wide<int16_t, int32_t>();
  check_wide<uint16_t, uint32_t>();
  check_wide<int32_t, int64_t>();
  check_wide<uint32_t, uint64_t>();
}

TEST_CASE("instructions: mul24 and mad24") {
  check_24<int32_t>();
  check_24<uint32_t>();
}

TEST_CASE("instructions: saturated sums of s32") {
  const auto clamp = [](Wide x) {
    return static_cast<int32_t>(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
  };
  const auto a = integers<int32_t>(rows, 12), b = integers<int32_t>(rows, 13),
             c = integers<int32_t>(rows, 14);
  CHECK(differences<int32_t>(
            "add.sat.s32", [&](int32_t x, int32_t y) { return clamp(Wide{x} + y); }, a, b) == 0);
  CHECK(differences<int32_t>(
            "sub.sat.s32", [&](int32_t x, int32_t y) { return clamp(Wide{x} - y); }, a, b) == 0);
  CHECK(differences<int32_t>(
            "mad.hi.sat.s32", [&](int32_t x, int32_t y, int32_t z) { return clamp((Wide{x} * y >> 32) + z); },
            a, b, c) == 0);
}

TEST_CASE("instructions: dp4a and dp2a with every pair of signs") {
  const auto a = integers<uint32_t>(rows, 15), b = integers<uint32_t>(rows, 16),
             c = integers<uint32_t>(rows, 17);
  for (const bool x_signed : {false, true})
    for (const bool y_signed : {false, true}) {
      const std::string types = std::string(x_signed ? ".s32" : ".u32") + (y_signed ? ".s32" : ".u32");
      CHECK(differences<uint32_t>(
                "dp4a" + types,
                [=](uint32_t x, uint32_t y, uint32_t z) {
                  int64_t sum = z;
                  for (int i = 0; i < 4; ++i) sum += part(x, 8, i, x_signed) * part(y, 8, i, y_signed);
                  return static_cast<uint32_t>(sum);
                },
                a, b, c) == 0);
      for (const int first : {0, 2})
        CHECK(differences<uint32_t>(
                  std::string("dp2a") + (first == 0 ? ".lo" : ".hi") + types,
                  [=](uint32_t x, uint32_t y, uint32_t z) {
                    int64_t sum = z;
                    for (int i = 0; i < 2; ++i)
                      sum += part(x, 16, i, x_signed) * part(y, 8, first + i, y_signed);
                    return static_cast<uint32_t>(sum);
                  },
                  a, b, c) == 0);
    }
}

TEST_CASE("instructions: carries go through additions, subtractions and products of 128 bits") {
  __extension__ using U128 = unsigned __int128;
  const auto a = integers<uint64_t>(rows, 18), b = integers<uint64_t>(rows, 19),
             c = integers<uint64_t>(rows, 20), e = integers<uint64_t>(rows, 21);
  const auto join = [](uint64_t high, uint64_t low) { return U128{high} << 64 | low; };
  const auto high_of = [](U128 x) { return static_cast<uint64_t>(x >> 64); };
  CHECK(differences<uint64_t>(
            "add.cc.u64 %l1, %a, %c; addc.u64 %d, %b, %e;",
            [&](uint64_t al, uint64_t ah, uint64_t bl, uint64_t bh) {
              return high_of(join(ah, al) + join(bh, bl));
            },
            a, b, c, e) == 0);
  CHECK(differences<uint64_t>(
            "sub.cc.u64 %l1, %a, %c; subc.u64 %d, %b, %e;",
            [&](uint64_t al, uint64_t ah, uint64_t bl, uint64_t bh) {
              return high_of(join(ah, al) - join(bh, bl));
            },
            a, b, c, e) == 0);
  CHECK(differences<uint64_t>(
            "mad.lo.cc.u64 %l1, %a, %b, %c; madc.hi.u64 %d, %a, %b, %e;",
            [&](uint64_t x, uint64_t y, uint64_t low, uint64_t high) {
              return high_of(U128{x} * y + join(high, low));
            },
            a, b, c, e) == 0);
  // Three words of 32 bits: a carry that is read and written.
  const auto w = integers<uint32_t>(rows, 22), x = integers<uint32_t>(rows, 23),
             y = integers<uint32_t>(rows, 24), z = integers<uint32_t>(rows, 25);
  CHECK(differences<uint32_t>(
            "add.cc.u32 %r1, %a, %c; addc.cc.u32 %r1, %b, %e; addc.u32 %d, 0, 0;",
            [](uint32_t al, uint32_t ah, uint32_t bl, uint32_t bh) {
              const U128 sum = (U128{ah} << 32 | al) + (U128{bh} << 32 | bl);
              return static_cast<uint32_t>(sum >> 64);
            },
            w, x, y, z) == 0);
  CHECK(differences<uint32_t>(
            "sub.cc.u32 %r1, %a, %c; subc.cc.u32 %r1, %b, %e; subc.u32 %d, 0, 0;",
            [](uint32_t al, uint32_t ah, uint32_t bl, uint32_t bh) {
              const U128 difference = (U128{ah} << 32 | al) - (U128{bh} << 32 | bl);
              return static_cast<uint32_t>(difference >> 64);
            },
            w, x, y, z) == 0);
}

TEST_CASE("instructions: pairs of 16-bit integers, and .relu") {
  const auto a = integers<uint32_t>(rows, 26), b = integers<uint32_t>(rows, 27);
  const auto check = [&](const std::string& instruction, bool is_signed, auto op) {
    CHECK(differences<uint32_t>(
              instruction,
              [=](uint32_t x, uint32_t y) {
                const auto half = [=](int i) {
                  return static_cast<uint32_t>(op(part(x, 16, i, is_signed), part(y, 16, i, is_signed))) &
                         0xffff;
                };
                return half(1) << 16 | half(0);
              },
              a, b) == 0);
  };
  const auto least = [](int64_t x, int64_t y) { return std::min(x, y); };
  const auto greatest = [](int64_t x, int64_t y) { return std::max(x, y); };
  check("add.u16x2", false, [](int64_t x, int64_t y) { return x + y; });
  check("add.s16x2", true, [](int64_t x, int64_t y) { return x + y; });
  check("min.u16x2", false, least);
  check("min.s16x2", true, least);
  check("max.u16x2", false, greatest);
  check("max.s16x2", true, greatest);
  check("min.s16x2.relu", true, [](int64_t x, int64_t y) { return std::max<int64_t>(std::min(x, y), 0); });
  check("max.relu.s16x2", true, [](int64_t x, int64_t y) { return std::max<int64_t>({x, y, 0}); });
  const auto c = integers<int32_t>(rows, 28), e = integers<int32_t>(rows, 29);
  CHECK(differences<int32_t>(
            "min.relu.s32", [](int32_t x, int32_t y) { return std::max(std::min(x, y), 0); }, c, e) == 0);
  CHECK(differences<int32_t>(
            "max.relu.s32",
            [](int32_t x, int32_t y) {
              return std::max({x, y, 0});
            },
            c, e) == 0);
}
