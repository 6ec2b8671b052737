// cvt in all its forms.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/cuda_sim/instructions/half_formats.h"

using namespace tessera::cuda_sim::testing;

namespace {

__extension__ using Wide = __int128;
__extension__ using Float128 = __float128;

constexpr size_t rows = 2000;

template <class T>
std::string name() {
  if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? ".f32" : ".f64";
  else
    return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

template <class D>
D clamp(Wide x) {
  using Limits = std::numeric_limits<D>;
  return x < Limits::min() ? Limits::min() : x > Limits::max() ? Limits::max() : static_cast<D>(x);
}

template <class D, class S>
void check_integers() {
  const auto a = integers<S>(rows, 1);
  const std::string types = name<D>() + name<S>();
  CHECK(differences<D>(
            "cvt" + types, [](S x) { return static_cast<D>(x); }, a) == 0);
  CHECK(differences<D>(
            "cvt.sat" + types, [](S x) { return clamp<D>(Wide{x}); }, a) == 0);
}

template <class D>
void check_integers_to() {
  check_integers<D, int8_t>();
  check_integers<D, uint8_t>();
  check_integers<D, int16_t>();
  check_integers<D, uint16_t>();
  check_integers<D, int32_t>();
  check_integers<D, uint32_t>();
  check_integers<D, int64_t>();
  check_integers<D, uint64_t>();
}

template <class F>
F to_integral(const std::string& rounding, F x) {
  return rounding == ".rni"   ? std::nearbyint(x)
         : rounding == ".rzi" ? std::trunc(x)
         : rounding == ".rmi" ? std::floor(x)
                              : std::ceil(x);
}

/// PTX ISA, "cvt": what a NaN becomes.
template <class D>
D of_nan(bool from_f64) {
  return !from_f64 && sizeof(D) != 8 ? D{0} : static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1));
}

template <class D, class F>
D to_integer(const std::string& rounding, F x) {
  if (std::isnan(x)) return of_nan<D>(sizeof(F) == 8);
  const F whole = to_integral(rounding, x);
  if (whole < -0x1p100) return std::numeric_limits<D>::min();
  return whole > 0x1p100 ? std::numeric_limits<D>::max() : clamp<D>(static_cast<Wide>(whole));
}

constexpr const char* integral_roundings[] = {".rni", ".rzi", ".rmi", ".rpi"};

template <class D>
void check_floats_to() {
  std::vector<uint16_t> every;
  for (uint32_t i = 0; i < 65536; i += 7) every.push_back(static_cast<uint16_t>(i));
  for (const std::string rounding : integral_roundings) {
    CHECK(differences<D>(
              "cvt" + rounding + name<D>() + ".f32", [&](float x) { return to_integer<D>(rounding, x); },
              floats<float>(rows, 2)) == 0);
    CHECK(differences<D>(
              "cvt" + rounding + name<D>() + ".f64", [&](double x) { return to_integer<D>(rounding, x); },
              floats<double>(rows, 3)) == 0);
    for (const SmallFormat& format : {f16, bf16})
      CHECK(differences<D>(
                "cvt" + rounding + name<D>() + (format.bias == 15 ? ".f16" : ".bf16"),
                [&](uint16_t x) { return to_integer<D>(rounding, static_cast<float>(value_of(format, x))); },
                every) == 0);
  }
}

constexpr std::pair<const char*, Direction> directions[] = {
    {".rn", Direction::nearest}, {".rz", Direction::zero}, {".rm", Direction::down}, {".rp", Direction::up}};

/// A number of 113 bits rounded to F.
template <class F>
F rounded(Float128 x, Direction direction) {
  const F nearest = static_cast<F>(x);
  if (direction == Direction::nearest || nearest == x) return nearest;
  const bool goes_down = direction == Direction::down || (direction == Direction::zero && x > 0);
  if (goes_down) return nearest > x ? std::nextafter(nearest, -std::numeric_limits<F>::infinity()) : nearest;
  return nearest < x ? std::nextafter(nearest, std::numeric_limits<F>::infinity()) : nearest;
}

template <class F, class S>
void check_to_float() {
  for (const auto& [mode, direction] : directions)
    CHECK(differences<F>(
              "cvt" + std::string(mode) + name<F>() + name<S>(),
              [way = direction](S x) { return rounded<F>(x, way); }, integers<S>(rows, 4)) == 0);
}

/// An integer as a double; beyond 53 bits the last one shows the rest.
double to_odd(Wide x) {
  return sum_to_odd(static_cast<double>(x >> 32) * 0x1p32, static_cast<double>(static_cast<uint32_t>(x)));
}

template <class S>
void check_to_small() {
  for (const auto& [mode, direction] : directions)
    for (const SmallFormat& format : {f16, bf16})
      CHECK(differences<uint16_t>(
                "cvt" + std::string(mode) + (format.bias == 15 ? ".f16" : ".bf16") + name<S>(),
                [&, way = direction](S x) { return static_cast<uint16_t>(round_to(format, to_odd(x), way)); },
                integers<S>(rows, 5)) == 0);
}

}  // namespace

TEST_CASE("instructions: cvt between integers, with and without .sat") {
  check_integers_to<int8_t>();
  check_integers_to<uint8_t>();
  check_integers_to<int16_t>();
  check_integers_to<uint16_t>();
  check_integers_to<int32_t>();
  check_integers_to<uint32_t>();
  check_integers_to<int64_t>();
  check_integers_to<uint64_t>();
}

TEST_CASE("instructions: cvt between registers wider than their types") {
  const auto a = integers<uint32_t>(rows, 6);
  CHECK(differences<uint32_t>(
            "cvt.s32.s8 %d, %a;", [](uint32_t x) { return static_cast<uint32_t>(static_cast<int8_t>(x)); },
            a) == 0);
  CHECK(differences<uint32_t>(
            "cvt.u32.u16 %d, %a;", [](uint32_t x) { return x & 0xffff; }, a) == 0);
  CHECK(differences<uint32_t>(
            "cvt.s8.s32 %d, %a;", [](uint32_t x) { return static_cast<uint32_t>(static_cast<int8_t>(x)); },
            a) == 0);
  CHECK(differences<uint32_t>(
            "cvt.u8.u32 %d, %a;", [](uint32_t x) { return x & 0xff; }, a) == 0);
  CHECK(differences<uint64_t>(
            "cvt.s16.s32 %d, %a;", [](uint32_t x) { return static_cast<uint64_t>(static_cast<int16_t>(x)); },
            a) == 0);
}

TEST_CASE("instructions: cvt from floating-point to integer clamps and knows NaN") {
  check_floats_to<int8_t>();
  check_floats_to<uint8_t>();
  check_floats_to<int16_t>();
  check_floats_to<uint16_t>();
  check_floats_to<int32_t>();
  check_floats_to<uint32_t>();
  check_floats_to<int64_t>();
  check_floats_to<uint64_t>();
  CHECK(apply<int32_t>("cvt.rpi.ftz.s32.f32", std::vector<float>{1e-40f, 0.1f}) ==
        std::vector<int32_t>{0, 1});
}

TEST_CASE("instructions: cvt from integers rounds in each direction") {
  check_to_float<float, int32_t>();
  check_to_float<float, uint32_t>();
  check_to_float<float, int64_t>();
  check_to_float<float, uint64_t>();
  check_to_float<double, int32_t>();
  check_to_float<double, int64_t>();
  check_to_float<double, uint64_t>();
  check_to_float<float, int16_t>();
  check_to_float<float, uint8_t>();
  check_to_small<int8_t>();
  check_to_small<uint16_t>();
  check_to_small<int32_t>();
  check_to_small<uint32_t>();
  check_to_small<int64_t>();
  check_to_small<uint64_t>();
}

TEST_CASE("instructions: cvt of 64 bits to a half sees the last one") {
  // The middle between two bf16 and one more: up; less: down; itself: to the even one.
  const int64_t middle = (int64_t{1} << 62) + (int64_t{1} << 54);
  const std::vector<int64_t> a = {middle + 1, middle - 1, middle, -middle - 1};
  CHECK(apply<uint16_t>("cvt.rn.bf16.s64", a) == std::vector<uint16_t>{0x5e81, 0x5e80, 0x5e80, 0xde81});
}

TEST_CASE("instructions: cvt between floating-point types") {
  const auto singles = floats<float>(rows, 7);
  const auto doubles = floats<double>(rows, 8);
  CHECK(differences<double>(
            "cvt.f64.f32", [](float x) { return static_cast<double>(x); }, singles) == 0);
  for (const auto& [mode, direction] : directions) {
    const std::string prefix = "cvt" + std::string(mode);
    CHECK(differences<float>(
              prefix + ".f32.f64",
              [way = direction](double x) {
                if (!std::isfinite(x)) return static_cast<float>(x);
                const float nearest = static_cast<float>(x), greatest = std::numeric_limits<float>::max();
                const bool goes_down = way == Direction::down || (way == Direction::zero && x > 0),
                           goes_up = way == Direction::up || (way == Direction::zero && x < 0);
                if (goes_down && nearest > x)
                  return std::isinf(nearest) ? greatest : std::nextafter(nearest, -INFINITY);
                if (goes_up && nearest < x)
                  return std::isinf(nearest) ? -greatest : std::nextafter(nearest, INFINITY);
                return nearest;
              },
              doubles) == 0);
    for (const SmallFormat& format : {f16, bf16}) {
      const std::string to = format.bias == 15 ? ".f16" : ".bf16";
      CHECK(differences<uint16_t>(
                prefix + to + ".f32",
                [&, way = direction](float x) { return static_cast<uint16_t>(round_to(format, x, way)); },
                singles) == 0);
      CHECK(differences<uint16_t>(
                prefix + to + ".f64",
                [&, way = direction](double x) { return static_cast<uint16_t>(round_to(format, x, way)); },
                doubles) == 0);
    }
  }
  std::vector<uint16_t> every(65536);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
  for (const SmallFormat& format : {f16, bf16}) {
    const std::string from = format.bias == 15 ? ".f16" : ".bf16";
    CHECK(differences<float>(
              "cvt.f32" + from, [&](uint16_t x) { return static_cast<float>(value_of(format, x)); }, every) ==
          0);
    CHECK(differences<double>(
              "cvt.f64" + from, [&](uint16_t x) { return value_of(format, x); }, every) == 0);
    for (const std::string rounding : integral_roundings)
      CHECK(differences<uint16_t>(
                "cvt" + rounding + from + from,
                [&](uint16_t x) {
                  return static_cast<uint16_t>(round_to(format, to_integral(rounding, value_of(format, x))));
                },
                every) == 0);
  }
}

TEST_CASE("instructions: cvt to f16 reaches the middles between two numbers") {
  std::vector<float> middles;
  for (uint32_t code = 0; code <= 0x7bff; ++code)
    for (const int step : {-1, 0, 1}) {
      const double next = code == 0x7bff ? 65536 : value_of(f16, code + 1);  // beyond: infinity
      const auto middle = static_cast<float>((value_of(f16, code) + next) / 2);
      middles.push_back(step == 0 ? middle : std::nextafter(middle, step * INFINITY));
    }
  CHECK(differences<uint16_t>(
            "cvt.rn.f16.f32", [](float x) { return static_cast<uint16_t>(round_to(f16, x)); }, middles) == 0);
  CHECK(differences<uint16_t>(
            "cvt.rn.bf16.f32", [](float x) { return static_cast<uint16_t>(round_to(bf16, x)); }, middles) ==
        0);
}

TEST_CASE("instructions: cvt to integral values, with .sat and .ftz") {
  const auto singles = floats<float>(rows, 9);
  const auto doubles = floats<double>(rows, 10);
  const auto saturated = [](auto x) { return std::isnan(x) || x <= 0 ? 0 : x > 1 ? 1 : x; };
  const auto flushed = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  for (const std::string rounding : integral_roundings) {
    CHECK(differences<float>(
              "cvt" + rounding + ".f32.f32", [&](float x) { return to_integral(rounding, x); }, singles) ==
          0);
    CHECK(differences<float>(
              "cvt" + rounding + ".ftz.f32.f32", [&](float x) { return to_integral(rounding, flushed(x)); },
              singles) == 0);
    CHECK(differences<double>(
              "cvt" + rounding + ".f64.f64", [&](double x) { return to_integral(rounding, x); }, doubles) ==
          0);
  }
  CHECK(differences<float>(
            "cvt.sat.f32.f32", [&](float x) { return static_cast<float>(saturated(x)); }, singles) == 0);
  CHECK(differences<float>(
            "cvt.rn.sat.f32.f64", [&](double x) { return static_cast<float>(saturated(x)); }, doubles) == 0);
  CHECK(differences<float>(
            "cvt.ftz.f32.f32", [&](float x) { return flushed(x); }, singles) == 0);
  CHECK(differences<double>(
            "cvt.sat.f64.f64", [&](double x) { return static_cast<double>(saturated(x)); }, doubles) == 0);
}

TEST_CASE("instructions: cvt to tf32 cuts 13 bits") {
  const auto singles = floats<float>(rows, 11);
  const auto expected = [](float x, bool away) {
    auto bits = std::bit_cast<uint32_t>(x);
    if (std::isnan(x)) return NAN;
    if (std::isinf(x)) return x;
    const uint32_t rest = bits & 0x1fff;
    bits -= rest;
    if (rest > 0x1000 || (rest == 0x1000 && (away || (bits & 0x2000) != 0))) bits += 0x2000;
    return std::bit_cast<float>(bits);
  };
  CHECK(differences<float>(
            "cvt.rna.tf32.f32", [&](float x) { return expected(x, true); }, singles) == 0);
  CHECK(differences<float>(
            "cvt.rn.tf32.f32", [&](float x) { return expected(x, false); }, singles) == 0);
}

TEST_CASE("instructions: cvt of two f32 to packed formats") {
  const auto a = floats<float>(rows, 12), b = floats<float>(rows, 13);
  const auto relu = [](float x) { return x < 0 ? 0.0f : x; };
  for (const SmallFormat& format : {f16, bf16}) {
    const std::string to = format.bias == 15 ? ".f16x2.f32" : ".bf16x2.f32";
    for (const auto& [mode, direction] : {directions[0], directions[1]}) {
      CHECK(differences<uint32_t>(
                "cvt" + std::string(mode) + to,
                [&, way = direction](float x, float y) {
                  return round_to(format, x, way) << 16 | round_to(format, y, way);
                },
                a, b) == 0);
      CHECK(differences<uint32_t>(
                "cvt" + std::string(mode) + ".relu" + to,
                [&, way = direction](float x, float y) {
                  return round_to(format, relu(x), way) << 16 | round_to(format, relu(y), way);
                },
                a, b) == 0);
    }
    CHECK(differences<uint32_t>(
              "cvt.rn.satfinite" + to,
              [&](float x, float y) {
                return round_to(format, x, Direction::nearest, true) << 16 |
                       round_to(format, y, Direction::nearest, true);
              },
              a, b) == 0);
  }
  for (const SmallFormat& format : {e4m3, e5m2}) {
    const std::string to = format.fraction_bits == 3 ? ".e4m3x2" : ".e5m2x2";
    const auto code = [&](double x) { return round_to(format, x, Direction::nearest, true); };
    CHECK(differences<uint16_t>(
              "cvt.rn.satfinite" + to + ".f32",
              [&](float x, float y) { return static_cast<uint16_t>(code(x) << 8 | code(y)); }, a, b) == 0);
    CHECK(differences<uint16_t>(
              "cvt.rn.satfinite.relu" + to + ".f32",
              [&](float x, float y) { return static_cast<uint16_t>(code(relu(x)) << 8 | code(relu(y))); }, a,
              b) == 0);
    const auto halves = integers<uint32_t>(rows, 14);
    CHECK(differences<uint16_t>(
              "cvt.rn.satfinite" + to + ".f16x2",
              [&](uint32_t x) {
                return static_cast<uint16_t>(code(value_of(f16, x >> 16)) << 8 |
                                             code(value_of(f16, x & 0xffff)));
              },
              halves) == 0);
    std::vector<uint16_t> every(65536);
    for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
    CHECK(differences<uint32_t>(
              "cvt.rn.f16x2" + to,
              [&](uint16_t x) {
                return round_to(f16, value_of(format, x >> 8)) << 16 |
                       round_to(f16, value_of(format, x & 0xff));
              },
              every) == 0);
  }
}
