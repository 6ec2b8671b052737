#include "tensor/cpu/random.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/elementwise_blocks.h"
#include "tensor/cpu/random_blocks.h"
#include "tensor/elementwise/erf.h"
#include "tensor/parallel.h"
#include "tensor/random/philox.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 512;  // elements: their words and numbers stay in the first-level cache

/// The words of elements first, ..., first + n - 1, from whole blocks: `words` has room for chunk + 8, and
/// the first element's word is at the returned offset.
struct Words {
  alignas(64) uint32_t word[chunk + 8];
  int64_t offset = 0;
  int64_t count = 0;  // of words drawn, a multiple of 4

  void draw(const WordSource& source, int64_t first, int64_t n, bool low = false) {
    const int64_t begin = first / 4, end = (first + n + 3) / 4;
    TESSERA_PER_ISA(random_words)(source, static_cast<uint64_t>(begin), low, end - begin, word);
    offset = first - 4 * begin;
    count = 4 * (end - begin);
  }
};

double normal_cumulative(double x) {
  return 0.5 * elementwise::erfc(-x * 0.70710678118654752440);
}

/// Numbers for every drawn word.
void numbers_of(const Distribution& d, const Words& words, const Words& low_words, bool fine, double* out) {
  const int64_t n = words.count;
  switch (d.kind) {
    case Distribution::Kind::uniform:
      if (fine)
        TESSERA_PER_ISA(uniform_numbers_53)(words.word, low_words.word, d.location, d.scale, n, out);
      else
        TESSERA_PER_ISA(uniform_numbers)(words.word, d.location, d.scale, n, out);
      return;
    case Distribution::Kind::normal:
      return TESSERA_PER_ISA(normal_numbers)(words.word, d.location, d.scale, n, out);
    case Distribution::Kind::truncated_normal:
      return TESSERA_PER_ISA(truncated_normal_numbers)(words.word, d.low, d.high, normal_cumulative(d.low),
                                                       normal_cumulative(d.high), d.location, d.scale, n,
                                                       out);
    case Distribution::Kind::bernoulli:
      return TESSERA_PER_ISA(bernoulli_numbers)(words.word, elementwise::bernoulli_threshold(d.location), n,
                                                out);
  }
}

}  // namespace

void fill_random(const Distribution& distribution, uint64_t key, int64_t first_index, const Tensor& out) {
  const UnaryBlock convert = TESSERA_PER_ISA(convert_block)(f64, out.dtype());
  const bool fine = distribution.kind == Distribution::Kind::uniform && out.dtype() == f64;
  const WordSource source = {key, 0, 0};
  char* data = static_cast<char*>(out.raw_data());
  const int64_t total = out.numel(), width = size_of(out.dtype());
  parallel_for((total + chunk - 1) / chunk, 16, [&](int64_t begin, int64_t end) {
    Words words, low_words;
    alignas(64) double numbers[chunk + 8];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i * chunk, n = std::min(chunk, total - start);
      words.draw(source, first_index + start, n);
      if (fine) low_words.draw(source, first_index + start, n, true);
      numbers_of(distribution, words, low_words, fine, numbers);
      convert(numbers + words.offset, data + start * width, n);
    }
  });
}

void dropout(const Tensor& x, double probability, uint64_t key, uint32_t step, const uint32_t* samples,
             int64_t first_index, const Tensor& y) {
  const DType dtype = x.dtype();
  const bool narrow = dtype == bf16 || dtype == f16;
  const UnaryBlock widen = TESSERA_PER_ISA(convert_block)(dtype, f32);
  const UnaryBlock round = TESSERA_PER_ISA(convert_block)(f32, dtype);
  const uint64_t exact = elementwise::bernoulli_threshold(probability);
  const auto threshold = static_cast<uint32_t>(std::min<uint64_t>(exact, 0xffffffffu));
  const double scale = 1.0 / (1.0 - probability);
  const int64_t rows = x.rank() == 0 ? 1 : x.shape()[0], length = x.numel() / rows, width = size_of(dtype);
  const int64_t per_row = (length + chunk - 1) / chunk;
  const char* from = static_cast<const char*>(x.raw_data());
  char* to = static_cast<char*>(y.raw_data());
  parallel_for(rows * per_row, 16, [&](int64_t begin, int64_t end) {
    Words words;
    alignas(64) float wide[chunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / per_row, start = i % per_row * chunk, n = std::min(chunk, length - start);
      words.draw({key, samples[row], step}, first_index + start, n);
      const uint32_t* word = words.word + words.offset;
      const char* source = from + (row * length + start) * width;
      char* target = to + (row * length + start) * width;
      if (dtype == f64) {
        TESSERA_PER_ISA(dropout_f64)
        (reinterpret_cast<const double*>(source), word, threshold, scale, n,
         reinterpret_cast<double*>(target));
        continue;
      }
      if (narrow) widen(source, wide, n);
      TESSERA_PER_ISA(dropout_f32)
      (narrow ? wide : reinterpret_cast<const float*>(source), word, threshold, static_cast<float>(scale), n,
       narrow ? wide : reinterpret_cast<float*>(target));
      if (narrow) round(wide, target, n);
    }
  });
}

}  // namespace tessera::kernels::cpu
