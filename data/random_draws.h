#pragma once  // internal

#include <cstdint>

namespace tessera::data {

/// The use of a random number in this folder: with equal seeds and counters, two purposes give independent
/// random numbers.
enum class Purpose : uint32_t {
  training_window,
  estimate_window,
  grammar,
  shuffle,
  weighted,
  example,
  stream
};

/// 64 random bits at (a, b): Philox 4x32-10 with the seed as key. A pure function of its arguments.
uint64_t draw(uint64_t seed, Purpose purpose, uint64_t a, uint32_t b);

/// Uniform over [0, n), from 64 random bits: the high half of their product with n (no value is off by more
/// than n / 2^64).
inline uint64_t uniform_below(uint64_t n, uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{bits} * n >> 64);
}

}  // namespace tessera::data
