#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"

/// The inner loops of random values; their sources are in tensor/cpu/isa. Words and random values are
/// defined in tensor/random/philox.h.
namespace tessera::kernels::cpu {

/// The key and the counters of Philox words (see `random_block`).
struct WordSource {
  uint64_t key;
  uint32_t sample;
  uint32_t step;
};

// random_words writes the four words of each of `blocks` blocks from `first_block` on (with `low`, those of
// random_low_block). The *_values turn n words into n random values; normals need an n that is a multiple
// of 4 and words from whole blocks.
TESSERA_DECLARE_PER_ISA(
    void random_words(const WordSource& source, uint64_t first_block, bool low, int64_t blocks,
                      uint32_t* words);
    void uniform_values(const uint32_t* words, double low, double width, int64_t n, double* out);
    void uniform_values_53(const uint32_t* words, const uint32_t* low_words, double low, double width,
                           int64_t n, double* out);
    void normal_values(const uint32_t* words, double mean, double deviation, int64_t n, double* out);
    void truncated_normal_values(const uint32_t* words, double low, double high, double cumulative_low,
                                 double cumulative_high, double mean, double deviation, int64_t n,
                                 double* out);
    void bernoulli_values(const uint32_t* words, uint64_t threshold, int64_t n, double* out);)

}  // namespace tessera::kernels::cpu
