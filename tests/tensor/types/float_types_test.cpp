#include "tensor/types/float_types.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/cpu/loops/convert.h"
#include "tensor/error.h"
#include "tensor/threads/parallel.h"

using namespace tessera;
using namespace tessera::kernels::cpu;

namespace {

/// A format by its definition: the value of the bits of a positive number, where the exponent after the last
/// finite one counts as finite, so that the first half of the way to it is known.
template <class T>
struct Format;
template <>
struct Format<float16> {
  static constexpr int mantissa = 10, bias = 15;
  static constexpr uint16_t infinity = 0x7c00;
};
template <>
struct Format<bfloat16> {
  static constexpr int mantissa = 7, bias = 127;
  static constexpr uint16_t infinity = 0x7f80;
};

template <class T>
double value_of(int bits) {
  using F = Format<T>;
  const int exponent = bits >> F::mantissa, fraction = bits & ((1 << F::mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << F::mantissa);
  return std::ldexp(whole, (exponent == 0 ? 1 : exponent) - F::bias - F::mantissa);
}

template <class T>
T from(int bits) {
  T x;
  x.bits = static_cast<uint16_t>(bits);
  return x;
}

uint32_t bits_of(float x) {
  return __builtin_bit_cast(uint32_t, x);
}

/// Floats and what they round to: every finite value, the middles between neighbours, which go to the even
/// one, and the floats beside these; of both signs.
template <class T>
struct Roundings {
  std::vector<float> x;
  std::vector<uint16_t> expected;

  Roundings() {
    for (int h = 0; h < Format<T>::infinity; ++h) {
      const auto middle = static_cast<float>((value_of<T>(h) + value_of<T>(h + 1)) / 2);
      add(static_cast<float>(value_of<T>(h)), h);
      add(middle, h + h % 2);
      add(std::nextafter(middle, 0.0f), h);
      add(std::nextafter(middle, HUGE_VALF), h + 1);
    }
    add(HUGE_VALF, Format<T>::infinity);
  }

 private:
  void add(float value, int rounded) {
    for (const bool negative : {false, true}) {
      x.push_back(negative ? -value : value);
      expected.push_back(static_cast<uint16_t>(rounded | (negative ? 0x8000 : 0)));
    }
  }
};

template <class Body>
void on_each_isa(const Body& body) {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const IsaScope scope(isa);
    CAPTURE(name(isa));
    body();
  }
}

template <class T>
void check_widening() {
  constexpr int count = 0x10000;
  std::vector<T> x;
  for (int h = 0; h < count; ++h) x.push_back(from<T>(h));
  std::vector<float> expected(count), row(count);
  for (int h = 0; h < count; ++h) {
    const int magnitude = h & 0x7fff;
    const bool nan = magnitude > Format<T>::infinity;
    const double value = magnitude == Format<T>::infinity ? HUGE_VAL : value_of<T>(magnitude);
    expected[h] = static_cast<float>(h & 0x8000 ? -value : value);
    const float got = static_cast<float>(x[h]);
    if (nan ? !std::isnan(got) : bits_of(got) != bits_of(expected[h]))
      FAIL_CHECK(text("bits ", h, ": ", got, " instead of ", expected[h]));
    if (nan) expected[h] = got;  // its payload is not defined; arrays have the same
  }
  on_each_isa([&] {
    const FlushDenormals flushed;
    widen_contiguous(x.data(), count, row.data());
    CHECK(std::memcmp(row.data(), expected.data(), count * sizeof(float)) == 0);
  });
}

template <class T>
void check_rounding() {
  const Roundings<T> cases;
  const auto n = static_cast<int64_t>(cases.x.size());
  std::vector<T> rounded(cases.x.size());
  for (int64_t i = 0; i < n; ++i)
    if (T(cases.x[i]).bits != cases.expected[i])
      FAIL_CHECK(text(cases.x[i], ": ", T(cases.x[i]).bits, " instead of ", cases.expected[i]));
  on_each_isa([&] {
    const FlushDenormals flushed;
    narrow_contiguous(cases.x.data(), n, rounded.data());
    const bool same = std::memcmp(rounded.data(), cases.expected.data(), n * sizeof(T)) == 0;
    CHECK(same);
  });
}

}  // namespace

TEST_CASE("half types: every value in f32, one by one and in arrays, on every instruction set") {
  check_widening<float16>();
  check_widening<bfloat16>();
}

TEST_CASE(
    "half types: f32 rounds to nearest, ties to even, one by one and in arrays, on every instruction set") {
  check_rounding<float16>();
  check_rounding<bfloat16>();
}
