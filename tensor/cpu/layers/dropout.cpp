#include "tensor/cpu/layers/dropout.h"

#include <algorithm>

#include "tensor/cpu/loops/dropout_blocks.h"
#include "tensor/cpu/loops/random_blocks.h"
#include "tensor/cpu/loops/streamed_result.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 512;  // elements whose random words stay in the first-level cache

template <class Void>
Void* element(Void* x, DType dtype, int64_t i) {
  return static_cast<std::conditional_t<std::is_const_v<Void>, const char, char>*>(x) + i * size_of(dtype);
}

}  // namespace

void drop_elements(const ops::DropoutRows& rows, DType from, const void* x, const void* base, int64_t first,
                   int64_t n, DType to, void* y) {
  const uint64_t exact = elementwise::bernoulli_threshold(rows.probability);
  const auto threshold = static_cast<uint32_t>(std::min<uint64_t>(exact, 0xffffffffu));
  const double scale = 1.0 / (1.0 - rows.probability);
  const auto samples = static_cast<int64_t>(rows.samples.size());
  const auto draw = TESSERA_PER_ISA(random_words);
  const DropoutBlock drop = TESSERA_PER_ISA_BF16(dropout_block)(from, to);
  alignas(64) uint32_t words[chunk + 8];
  for (int64_t done = 0; done < n;) {
    const int64_t row = (first + done) / rows.length, offset = (first + done) % rows.length;
    const int64_t count = std::min({n - done, chunk, rows.length - offset});
    const int64_t index = rows.first_index + row / samples * rows.length + offset, block = index / 4;
    draw({rows.key, rows.samples[row % samples], rows.step}, static_cast<uint64_t>(block), false,
         (index + count + 3) / 4 - block, words);
    drop(element(x, from, done), base ? element(base, to, done) : nullptr, words + index % 4, threshold,
         scale, count, element(y, to, done));
    done += count;
  }
}

void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y) {
  const DType dtype = x.dtype();
  const int64_t total = x.numel();
  const bool in_place = y.raw_data() == x.raw_data() || (base.defined() && y.raw_data() == base.raw_data());
  // Drawing takes longer than memory for the half types.
  const bool streams = !in_place && size_of(dtype) >= 4 && streams_past_caches(total * size_of(dtype));
  parallel_for((total + chunk - 1) / chunk, 16, [&](int64_t begin, int64_t end) {
    alignas(64) char buffer[chunk * 8];
    const StreamedResult result(streams ? buffer : nullptr);
    const int64_t last = std::min(end * chunk, total), step = streams ? chunk : last;
    for (int64_t first = begin * chunk; first < last; first += step) {
      const int64_t n = std::min(step, last - first);
      void* const to = element(y.raw_data(), dtype, first);
      drop_elements(rows, dtype, element(x.raw_data(), dtype, first),
                    base.defined() ? element(base.raw_data(), dtype, first) : nullptr, first, n, dtype,
                    result.block(static_cast<char*>(to)));
      result.write(to, n * size_of(dtype));
    }
  });
}

}  // namespace tessera::kernels::cpu
