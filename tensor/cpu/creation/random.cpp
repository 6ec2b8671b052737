#include "tensor/cpu/creation/random.h"

#include <algorithm>
#include <cmath>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/random_blocks.h"
#include "tensor/elementwise/erf.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 512;  // elements whose words and random values stay in the first-level cache

/// The random words of elements first, ..., first + n - 1, drawn in whole blocks of 4. The first element's
/// word is at `offset`.
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

/// A random number for every drawn word.
void values_of(const Distribution& d, const Words& words, const Words& low_words, bool fine, double* out) {
  const int64_t n = words.count;
  switch (d.kind) {
    case Distribution::Kind::uniform:
      if (fine)
        TESSERA_PER_ISA(uniform_values_53)(words.word, low_words.word, d.location, d.scale, n, out);
      else
        TESSERA_PER_ISA(uniform_values)(words.word, d.location, d.scale, n, out);
      return;
    case Distribution::Kind::normal:
      return TESSERA_PER_ISA(normal_values)(words.word, d.location, d.scale, n, out);
    case Distribution::Kind::truncated_normal:
      return TESSERA_PER_ISA(truncated_normal_values)(words.word, d.low, d.high, normal_cumulative(d.low),
                                                      normal_cumulative(d.high), d.location, d.scale, n, out);
    case Distribution::Kind::bernoulli:
      return TESSERA_PER_ISA(bernoulli_values)(words.word, elementwise::bernoulli_threshold(d.location), n,
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
    alignas(64) double values[chunk + 8];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i * chunk, n = std::min(chunk, total - start);
      words.draw(source, first_index + start, n);
      if (fine) low_words.draw(source, first_index + start, n, true);
      values_of(distribution, words, low_words, fine, values);
      convert(values + words.offset, data + start * width, n);
    }
  });
}

}  // namespace tessera::kernels::cpu
