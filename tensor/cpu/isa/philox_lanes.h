#pragma once  // internal

#include "tensor/cpu/isa/lanes.h"
#include "tensor/random/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Philox blocks in parallel, one in every 64-bit lane. The vector multiplication reads the lower half of a
/// lane and gives all 64 bits of the product, so upper halves are ignored: a round is two products, two
/// shifts and two exclusive ors. Each waits for the one before, so several registers of blocks take turns.
namespace tessera::kernels::cpu::TESSERA_ISA {

/// Blocks of `philox_words<1>`.
inline constexpr int philox_lanes = 8;
/// The best factor for `philox_words`.
inline constexpr int philox_registers = register_bytes == 64 ? 4 : 1;

/// The keys of all rounds, as the upper halves of lanes are ignored.
struct PhiloxKeys {
  uint64_t first[10], second[10];

  explicit PhiloxKeys(uint64_t key) {
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      first[round] = k0, second[round] = k1;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }
};

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

/// All of v is computed before what follows. The compiler would otherwise put all rounds of one register
/// before those of the next, and the processor would wait for each product. The narrower instruction sets
/// have too few registers to gain by it.
template <int count>
[[gnu::always_inline]] inline void take_turns(PhiloxLanes (&v)[count]) {
  if constexpr (register_bytes == 64 && count == 4) asm("" : "+v"(v[0]), "+v"(v[1]), "+v"(v[2]), "+v"(v[3]));
}

/// The words of the blocks of `count` registers: register r has blocks from blocks[r] on.
template <int count>
[[gnu::always_inline]] inline void register_words(const PhiloxKeys& keys, const uint64_t (&blocks)[count],
                                                  uint32_t sample, uint32_t step,
                                                  uint32_t* const (&words)[count]) {
  constexpr uint64_t low = 0xffffffffu;
  constexpr std::make_integer_sequence<int, blocks_of_register> lanes;
  PhiloxLanes c0[count], c1[count], c2[count], c3[count];
  for (int r = 0; r < count; ++r) {
    c0[r] = counters_from(blocks[r], lanes);
    c1[r] = c0[r] >> 32;
    c2[r] = PhiloxLanes{} + sample;
    c3[r] = PhiloxLanes{} + step;
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) {
      const PhiloxLanes p0 = multiply_halves(c0[r], 0xD2511F53u), p1 = multiply_halves(c2[r], 0xCD9E8D57u);
      c0[r] = (p1 >> 32) ^ c1[r] ^ keys.first[round];
      c2[r] = (p0 >> 32) ^ c3[r] ^ keys.second[round];
      c1[r] = p1;
      c3[r] = p0;
    }
    take_turns(c0);
    take_turns(c2);
  }
  for (int r = 0; r < count; ++r) {
    const PhiloxLanes first = (c0[r] & low) | (c1[r] << 32), second = (c2[r] & low) | (c3[r] << 32);
    const PhiloxLanes lower = interleaved<0>(first, second, lanes),
                      upper = interleaved<blocks_of_register / 2>(first, second, lanes);
    __builtin_memcpy(words[r], &lower, sizeof lower);
    __builtin_memcpy(words[r] + 2 * blocks_of_register, &upper, sizeof upper);
  }
}

/// The words of random_block(key, block + i, sample, step) for i < 8 `count`, in order: 32 `count` of them.
template <int count>
[[gnu::always_inline]] inline void philox_words(const PhiloxKeys& keys, uint64_t block, uint32_t sample,
                                                uint32_t step, uint32_t* words) {
  constexpr int registers = count * philox_lanes / blocks_of_register;
  constexpr int together = register_bytes == 64 ? registers : 2;  // what the registers hold
  for (int first = 0; first < registers; first += together) {
    uint64_t blocks[together];
    uint32_t* to[together];
    for (int r = 0; r < together; ++r) {
      blocks[r] = block + static_cast<uint64_t>((first + r) * blocks_of_register);
      to[r] = words + 4 * blocks_of_register * (first + r);
    }
    register_words<together>(keys, blocks, sample, step, to);
  }
}

/// The same for several ranges of 8 blocks.
template <int ranges>
[[gnu::always_inline]] inline void philox_words(const PhiloxKeys& keys, const uint64_t (&blocks)[ranges],
                                                uint32_t sample, uint32_t step,
                                                uint32_t (&words)[ranges][4 * philox_lanes]) {
  for (int i = 0; i < philox_lanes; i += blocks_of_register) {
    uint64_t from[ranges];
    uint32_t* to[ranges];
    for (int r = 0; r < ranges; ++r) {
      from[r] = blocks[r] + static_cast<uint64_t>(i);
      to[r] = words[r] + 4 * i;
    }
    register_words<ranges>(keys, from, sample, step, to);
  }
}

#else

template <int count>
[[gnu::always_inline]] inline void philox_words(const PhiloxKeys& keys, uint64_t block, uint32_t sample,
                                                uint32_t step, uint32_t* words) {
  const uint64_t key = keys.second[0] << 32 | keys.first[0];
  for (int i = 0; i < count * philox_lanes; ++i) {
    const elementwise::PhiloxBlock random =
        elementwise::random_block(key, block + static_cast<uint64_t>(i), sample, step);
    for (int w = 0; w < 4; ++w) words[4 * i + w] = random.word[w];
  }
}

template <int ranges>
[[gnu::always_inline]] inline void philox_words(const PhiloxKeys& keys, const uint64_t (&blocks)[ranges],
                                                uint32_t sample, uint32_t step,
                                                uint32_t (&words)[ranges][4 * philox_lanes]) {
  for (int r = 0; r < ranges; ++r) philox_words<1>(keys, blocks[r], sample, step, words[r]);
}

#endif

}  // namespace tessera::kernels::cpu::TESSERA_ISA
