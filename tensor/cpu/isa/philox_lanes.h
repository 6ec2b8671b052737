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

typedef uint64_t PhiloxLanes __attribute__((vector_size(64)));

/// The lower half of every lane times `factor`, which has 32 bits.
[[gnu::always_inline]] inline PhiloxLanes multiply_halves(const PhiloxLanes& a, uint64_t factor) {
#if defined(__AVX512F__)
  // The form with a mask: GCC 12 warns of an undefined register in the other one (GCC bug 105593).
  return (PhiloxLanes)_mm512_maskz_mul_epu32(0xff, (__m512i)a,
                                             _mm512_set1_epi64(static_cast<int64_t>(factor)));
#elif defined(__AVX2__)
  const __m256i f = _mm256_set1_epi64x(static_cast<int64_t>(factor));
  PhiloxLanes product;
  for (int i = 0; i < 2; ++i) {
    __m256i half;
    __builtin_memcpy(&half, reinterpret_cast<const char*>(&a) + 32 * i, sizeof half);
    half = _mm256_mul_epu32(half, f);
    __builtin_memcpy(reinterpret_cast<char*>(&product) + 32 * i, &half, sizeof half);
  }
  return product;
#else
  const __m128i f = _mm_set1_epi64x(static_cast<int64_t>(factor));
  PhiloxLanes product;
  for (int i = 0; i < 4; ++i) {
    __m128i quarter;
    __builtin_memcpy(&quarter, reinterpret_cast<const char*>(&a) + 16 * i, sizeof quarter);
    quarter = _mm_mul_epu32(quarter, f);
    __builtin_memcpy(reinterpret_cast<char*>(&product) + 16 * i, &quarter, sizeof quarter);
  }
  return product;
#endif
}

/// The words of random_block(key, block + i, sample, step) for i < 8, in order: 32 of them.
[[gnu::always_inline]] inline void philox_words(uint64_t key, uint64_t block, uint32_t sample, uint32_t step,
                                                uint32_t* words) {
  constexpr uint64_t low = 0xffffffffu;
  const PhiloxLanes counter = PhiloxLanes{0, 1, 2, 3, 4, 5, 6, 7} + block;
  PhiloxLanes c0 = counter, c1 = counter >> 32, c2 = PhiloxLanes{} + sample, c3 = PhiloxLanes{} + step;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const PhiloxLanes p0 = multiply_halves(c0, 0xD2511F53u), p1 = multiply_halves(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ static_cast<uint64_t>(k0);
    c2 = (p0 >> 32) ^ c3 ^ static_cast<uint64_t>(k1);
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const PhiloxLanes first = (c0 & low) | (c1 << 32), second = (c2 & low) | (c3 << 32);
  const PhiloxLanes lower = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11),
                    upper = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
  __builtin_memcpy(words, &lower, sizeof lower);
  __builtin_memcpy(words + 16, &upper, sizeof upper);
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

#endif

}  // namespace tessera::kernels::cpu::TESSERA_ISA
