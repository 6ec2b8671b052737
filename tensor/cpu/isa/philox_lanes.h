#pragma once  // internal

#include "tensor/cpu/isa/lanes.h"
#include "tensor/random/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Philox blocks in parallel, one in every 64-bit lane. The vector multiplication reads the lower half of a
/// lane and gives all 64 bits of the product, so upper halves are ignored: a round is two products, two
/// shifts and two exclusive ors.
namespace tessera::kernels::cpu::TESSERA_ISA {

/// Blocks that `philox_words` computes together.
inline constexpr int philox_lanes = 8;

#if defined(__x86_64__)

using PhiloxLanes = Register<uint64_t>;
inline constexpr int blocks_of_register = register_bytes / 8;

/// The lower half of every lane times `factor`, which has 32 bits.
[[gnu::always_inline]] inline PhiloxLanes multiply_halves(const PhiloxLanes& a, uint64_t factor) {
  const auto value = static_cast<int64_t>(factor);
#if defined(__AVX512F__)
  // The form with a mask: GCC 12 warns of an undefined register in the other one (GCC bug 105593).
  return (PhiloxLanes)_mm512_maskz_mul_epu32(0xff, (__m512i)a, _mm512_set1_epi64(value));
#elif defined(__AVX2__)
  return (PhiloxLanes)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(value));
#else
  return (PhiloxLanes)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(value));
#endif
}

template <int... i>
[[gnu::always_inline]] inline PhiloxLanes counters_from(uint64_t block, std::integer_sequence<int, i...>) {
  return PhiloxLanes{static_cast<uint64_t>(i)...} + block;
}
/// Pairs of a lane of `a` and the same lane of `b`, from lane `first` on.
template <int first, int... i>
[[gnu::always_inline]] inline PhiloxLanes interleaved(const PhiloxLanes& a, const PhiloxLanes& b,
                                                      std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (first + i / 2 + (i % 2) * blocks_of_register)...);
}

/// The blocks of a register, from one on.
class PhiloxState {
 public:
  [[gnu::always_inline]] PhiloxState(uint64_t block, uint32_t sample, uint32_t step)
      : c0_(counters_from(block, lanes)),
        c1_(c0_ >> 32),
        c2_(PhiloxLanes{} + sample),
        c3_(PhiloxLanes{} + step) {}

  [[gnu::always_inline]] void round(uint32_t k0, uint32_t k1) {
    const PhiloxLanes p0 = multiply_halves(c0_, 0xD2511F53u), p1 = multiply_halves(c2_, 0xCD9E8D57u);
    c0_ = (p1 >> 32) ^ c1_ ^ static_cast<uint64_t>(k0);
    c2_ = (p0 >> 32) ^ c3_ ^ static_cast<uint64_t>(k1);
    c1_ = p1;
    c3_ = p0;
  }

  [[gnu::always_inline]] void store(uint32_t* words) const {
    constexpr uint64_t low = 0xffffffffu;
    const PhiloxLanes first = (c0_ & low) | (c1_ << 32), second = (c2_ & low) | (c3_ << 32);
    const PhiloxLanes lower = interleaved<0>(first, second, lanes),
                      upper = interleaved<blocks_of_register / 2>(first, second, lanes);
    __builtin_memcpy(words, &lower, sizeof lower);
    __builtin_memcpy(words + sizeof lower / sizeof *words, &upper, sizeof upper);
  }

 private:
  static constexpr std::make_integer_sequence<int, blocks_of_register> lanes{};

  PhiloxLanes c0_, c1_, c2_, c3_;
};

/// The ten rounds of each state, in turns: those of one wait for each other.
template <class... State>
[[gnu::always_inline]] inline void philox_rounds(uint64_t key, State&... states) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    (states.round(k0, k1), ...);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// The words of random_block(key, block + i, sample, step) for i < 8, in order: 32 of them.
[[gnu::always_inline]] inline void philox_words(uint64_t key, uint64_t block, uint32_t sample, uint32_t step,
                                                uint32_t* words) {
  for (int i = 0; i < philox_lanes; i += blocks_of_register) {
    PhiloxState state(block + static_cast<uint64_t>(i), sample, step);
    philox_rounds(key, state);
    state.store(words + 4 * i);
  }
}

/// The same for two ranges of blocks.
[[gnu::always_inline]] inline void philox_words(uint64_t key, uint64_t first_block, uint64_t second_block,
                                                uint32_t sample, uint32_t step, uint32_t* first,
                                                uint32_t* second) {
  for (int i = 0; i < philox_lanes; i += blocks_of_register) {
    PhiloxState one(first_block + static_cast<uint64_t>(i), sample, step),
        other(second_block + static_cast<uint64_t>(i), sample, step);
    philox_rounds(key, one, other);
    one.store(first + 4 * i);
    other.store(second + 4 * i);
  }
}

#else

[[gnu::always_inline]] inline void philox_words(uint64_t key, uint64_t block, uint32_t sample, uint32_t step,
                                                uint32_t* words) {
  for (int i = 0; i < philox_lanes; ++i) {
    const elementwise::PhiloxBlock random =
        elementwise::random_block(key, block + static_cast<uint64_t>(i), sample, step);
    for (int w = 0; w < 4; ++w) words[4 * i + w] = random.word[w];
  }
}
[[gnu::always_inline]] inline void philox_words(uint64_t key, uint64_t first_block, uint64_t second_block,
                                                uint32_t sample, uint32_t step, uint32_t* first,
                                                uint32_t* second) {
  philox_words(key, first_block, sample, step, first);
  philox_words(key, second_block, sample, step, second);
}

#endif

}  // namespace tessera::kernels::cpu::TESSERA_ISA
