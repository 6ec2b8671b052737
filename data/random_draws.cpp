#include "data/random_draws.h"

#include "tensor/random/philox.h"

namespace tessera::data {

uint64_t draw(uint64_t seed, Purpose purpose, uint64_t a, uint32_t b) {
  const elementwise::PhiloxBlock block = elementwise::philox(
      {{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), b, static_cast<uint32_t>(purpose)}}, seed);
  return uint64_t{block.word[1]} << 32 | block.word[0];
}

}  // namespace tessera::data
