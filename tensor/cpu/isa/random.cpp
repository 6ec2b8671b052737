#include "tensor/cpu/random_blocks.h"
#include "tensor/random/philox.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

void random_words(const WordSource& source, uint64_t first_block, bool low, int64_t blocks, uint32_t* words) {
  constexpr int64_t group = 64;  // blocks at a time, word by word, so that the rounds vectorize
  const uint64_t key = source.key, start = low ? first_block | 0x8000000000000000ull : first_block;
  const uint32_t sample = source.sample, step = source.step;
  for (int64_t done = 0; done < blocks; done += group) {
    uint32_t lane[4][group];
    for (int64_t i = 0; i < group; ++i) {
      const elementwise::PhiloxBlock block =
          elementwise::random_block(key, start + static_cast<uint64_t>(done + i), sample, step);
      lane[0][i] = block.word[0];
      lane[1][i] = block.word[1];
      lane[2][i] = block.word[2];
      lane[3][i] = block.word[3];
    }
    const int64_t count = blocks - done < group ? blocks - done : group;
    uint32_t* to = words + 4 * done;
    for (int64_t i = 0; i < count; ++i)
      for (int k = 0; k < 4; ++k) to[4 * i + k] = lane[k][i];
  }
}

void uniform_numbers(const uint32_t* words, double low, double width, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = elementwise::fma(static_cast<double>(elementwise::uniform_f32(words[i])), width, low);
}

void uniform_numbers_53(const uint32_t* words, const uint32_t* low_words, double low, double width, int64_t n,
                        double* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = elementwise::fma(elementwise::uniform_f64(words[i], low_words[i]), width, low);
}

void normal_numbers(const uint32_t* words, double mean, double deviation, int64_t n, double* out) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const elementwise::NormalPair pair = elementwise::normal_pair(words[2 * i], words[2 * i + 1]);
    out[2 * i] = elementwise::fma(pair.first, deviation, mean);
    out[2 * i + 1] = elementwise::fma(pair.second, deviation, mean);
  }
}

void truncated_normal_numbers(const uint32_t* words, double low, double high, double cumulative_low,
                              double cumulative_high, double mean, double deviation, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) {
    const double z = elementwise::truncated_normal(words[i], low, high, cumulative_low, cumulative_high);
    out[i] = elementwise::fma(z, deviation, mean);
  }
}

void bernoulli_numbers(const uint32_t* words, uint64_t threshold, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = elementwise::bernoulli(words[i], threshold) ? 1.0 : 0.0;
}

void dropout_f32(const float* x, const uint32_t* words, uint32_t threshold, float scale, int64_t n,
                 float* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = x[i] * scale;
    y[i] = words[i] < threshold ? 0.0f : scaled;
  }
}

void dropout_f64(const double* x, const uint32_t* words, uint32_t threshold, double scale, int64_t n,
                 double* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const double scaled = x[i] * scale;
    y[i] = words[i] < threshold ? 0.0 : scaled;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
