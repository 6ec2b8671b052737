#include "data/samplers/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "data/random_draws.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {
/// More than the four that make a Feistel network indistinguishable from random in the limit, because short
/// halves mix slowly.
constexpr uint64_t rounds = 8;
}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch)
    : size_(size), seed_(seed), epoch_(static_cast<uint64_t>(epoch)) {
  require<ConfigError>(size >= 0, "permutation: size ", size, ", expected at least 0");
  const int bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(size - 1, 1)));
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::scramble(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint64_t mixed =
        draw(seed_, Purpose::shuffle, epoch_ * rounds + round, static_cast<uint32_t>(right));
    left ^= mixed & mask;
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator[](int64_t i) const {
  require<IndexError>(i >= 0 && i < size_, "permutation: expected an index in [0, ", size_, "), got ", i);
  uint64_t value = static_cast<uint64_t>(i);
  do value = scramble(value);
  while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

}  // namespace tessera::data
