// Philox against Random123's known answers (kat_vectors), and the distributions made from it.
#include "tensor/random/philox.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace {

namespace ours = tessera::elementwise;

void check_block(ours::PhiloxBlock got, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  CHECK(got.word[0] == a);
  CHECK(got.word[1] == b);
  CHECK(got.word[2] == c);
  CHECK(got.word[3] == d);
}

}  // namespace

TEST_CASE("philox: Random123's known answers") {
  constexpr uint32_t ones = 0xffffffffu;
  check_block(ours::philox({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  check_block(ours::philox({{ones, ones, ones, ones}}, 0xffffffffffffffffull), 0x408f276d, 0x41c83b0e,
              0xa20bc7c6, 0x6d5451fd);
  check_block(ours::philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ull),
              0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST_CASE("philox: the counter is (block, sample, step)") {
  const ours::PhiloxBlock block = ours::random_block(7, 0x100000002ull, 3, 4),
                          same = ours::philox({{2, 1, 3, 4}}, 7);
  check_block(block, same.word[0], same.word[1], same.word[2], same.word[3]);
}

TEST_CASE("uniform: ranges and resolution") {
  CHECK(ours::uniform_f32(0) == 0.0f);
  CHECK(ours::uniform_f32(0xffffffffu) == 1.0f - 0x1p-24f);
  CHECK(ours::uniform_f64(0, 0) == 0.0);
  CHECK(ours::uniform_f64(0, 1u << 11) == 0x1p-53);
  CHECK(ours::uniform_f64(0xffffffffu, 0xffffffffu) == 1.0 - 0x1p-53);
  CHECK(ours::uniform_f64(0x80000000u, 0) == 0.5);
}

TEST_CASE("normal: Box and Muller's formula, at every quadrant") {
  for (uint32_t angle : {0u, 0x12345678u, 0x40000000u, 0x7fffffffu, 0x9abcdef0u, 0xc0000001u, 0xffffffffu})
    for (uint32_t radius : {0u, 1u, 0x80000000u, 0xffffffffu}) {
      const ours::NormalPair pair = ours::normal_pair(radius, angle);
      const double r = std::sqrt(-2 * std::log((radius + 0.5) * 0x1p-32));
      // Quadrants are turned back by an eighth, so that the reduced angle lies in [-pi/4, pi/4).
      const double turn = 2 * 3.14159265358979323846 * (angle * 0x1p-32 - 0.125);
      CHECK(pair.first == doctest::Approx(r * std::cos(turn)).epsilon(1e-12));
      CHECK(pair.second == doctest::Approx(r * std::sin(turn)).epsilon(1e-12));
    }
}

TEST_CASE("normal quantile: inverts the cumulative function") {
  for (double x = -8; x <= 5; x += 0.037) {
    const double p = 0.5 * std::erfc(-x / std::sqrt(2.0));
    // Near 1, p holds fewer digits of x.
    const double tolerance = 1e-14 + 2e-16 / std::exp(-x * x / 2);
    CHECK(std::fabs(ours::normal_quantile(p) - x) < tolerance * (1 + std::fabs(x)));
  }
}

TEST_CASE("bernoulli: thresholds at both ends") {
  CHECK(ours::bernoulli_threshold(0) == 0);
  CHECK(ours::bernoulli_threshold(1) == uint64_t{1} << 32);
  CHECK(ours::bernoulli(0xffffffffu, ours::bernoulli_threshold(1)));
  CHECK(!ours::bernoulli(0, ours::bernoulli_threshold(0)));
}
