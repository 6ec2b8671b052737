#include "tensor/cpu/isa/philox_lanes.h"
#include "tensor/cpu/loops/random_blocks.h"
#include "tensor/random/philox.h"

namespace tessera::kernels::cpu::TESSERA_ISA {

void random_words(const WordSource& source, uint64_t first_block, bool low, int64_t blocks, uint32_t* words) {
  const uint64_t start = low ? first_block | 0x8000000000000000ull : first_block;
  const PhiloxKeys keys(source.key);
  constexpr int64_t wide = philox_registers * philox_lanes;
  int64_t done = 0;
  for (; done + wide <= blocks; done += wide)
    philox_words<philox_registers>(keys, start + static_cast<uint64_t>(done), source.sample, source.step,
                                   words + 4 * done);
  for (; done < blocks; done += philox_lanes) {
    uint32_t some[4 * philox_lanes];
    philox_words<1>(keys, start + static_cast<uint64_t>(done), source.sample, source.step, some);
    const int64_t count = 4 * (blocks - done < philox_lanes ? blocks - done : philox_lanes);
    for (int64_t i = 0; i < count; ++i) words[4 * done + i] = some[i];
  }
}

void uniform_values(const uint32_t* words, double low, double width, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = elementwise::fma(static_cast<double>(elementwise::uniform_f32(words[i])), width, low);
}

void uniform_values_53(const uint32_t* words, const uint32_t* low_words, double low, double width, int64_t n,
                       double* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = elementwise::fma(elementwise::uniform_f64(words[i], low_words[i]), width, low);
}

void normal_values(const uint32_t* words, double mean, double deviation, int64_t n, double* out) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const elementwise::NormalPair pair = elementwise::normal_pair(words[2 * i], words[2 * i + 1]);
    out[2 * i] = elementwise::fma(pair.first, deviation, mean);
    out[2 * i + 1] = elementwise::fma(pair.second, deviation, mean);
  }
}

void truncated_normal_values(const uint32_t* words, double low, double high, double cumulative_low,
                             double cumulative_high, double mean, double deviation, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) {
    const double z = elementwise::truncated_normal(words[i], low, high, cumulative_low, cumulative_high);
    out[i] = elementwise::fma(z, deviation, mean);
  }
}

void bernoulli_values(const uint32_t* words, uint64_t threshold, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = elementwise::bernoulli(words[i], threshold) ? 1.0 : 0.0;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
