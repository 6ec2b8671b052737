#include "tensor/cpu/layers/dropout.h"

#include <algorithm>

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/random_blocks.h"
#include "tensor/random/philox.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t chunk = 512;  // elements whose random words stay in the first-level cache

void drop(const float* x, const uint32_t* words, uint32_t threshold, double scale, int64_t n, float* y) {
  TESSERA_PER_ISA(dropout_f32)(x, words, threshold, static_cast<float>(scale), n, y);
}
void drop(const double* x, const uint32_t* words, uint32_t threshold, double scale, int64_t n, double* y) {
  TESSERA_PER_ISA(dropout_f64)(x, words, threshold, scale, n, y);
}

template <class A>
void drop_typed(const ops::DropoutRows& rows, const A* x, int64_t first, int64_t n, A* y) {
  const uint64_t exact = elementwise::bernoulli_threshold(rows.probability);
  const auto threshold = static_cast<uint32_t>(std::min<uint64_t>(exact, 0xffffffffu));
  const double scale = 1.0 / (1.0 - rows.probability);
  const auto samples = static_cast<int64_t>(rows.samples.size());
  alignas(64) uint32_t words[chunk + 8];
  for (int64_t done = 0; done < n;) {
    const int64_t row = (first + done) / rows.length, offset = (first + done) % rows.length;
    const int64_t count = std::min({n - done, chunk, rows.length - offset});
    const int64_t index = rows.first_index + row / samples * rows.length + offset, block = index / 4;
    TESSERA_PER_ISA(random_words)
    ({rows.key, rows.samples[row % samples], rows.step}, static_cast<uint64_t>(block), false,
     (index + count + 3) / 4 - block, words);
    drop(x + done, words + index % 4, threshold, scale, count, y + done);
    done += count;
  }
}

}  // namespace

void drop_elements(const ops::DropoutRows& rows, const float* x, int64_t first, int64_t n, float* y) {
  drop_typed(rows, x, first, n, y);
}
void drop_elements(const ops::DropoutRows& rows, const double* x, int64_t first, int64_t n, double* y) {
  drop_typed(rows, x, first, n, y);
}

void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y) {
  const DType dtype = x.dtype(), wide = dtype == f64 ? f64 : f32;
  const UnaryBlock widen = TESSERA_PER_ISA(convert_block)(dtype, wide);
  const UnaryBlock round = TESSERA_PER_ISA(convert_block)(wide, dtype);
  const BinaryBlock add = TESSERA_PER_ISA(binary_blocks)(BinaryOp::add, wide).arrays;
  const int64_t total = x.numel(), width = size_of(dtype);
  const auto at = [width](const Tensor& tensor, int64_t i) {
    return static_cast<char*>(tensor.raw_data()) + i * width;
  };
  parallel_for((total + chunk - 1) / chunk, 16, [&](int64_t begin, int64_t end) {
    alignas(64) double values[chunk], base_values[chunk];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * chunk, n = std::min(chunk, total - first);
      const bool in_place = dtype == wide;
      const void* from = at(x, first);
      void* to = at(y, first);
      if (!in_place) {
        widen(from, values, n);
        from = to = values;
      }
      if (wide == f64)
        drop_typed(rows, static_cast<const double*>(from), first, n, static_cast<double*>(to));
      else
        drop_typed(rows, static_cast<const float*>(from), first, n, static_cast<float*>(to));
      if (base.defined() && in_place) {
        add(at(base, first), to, to, n);
      } else if (base.defined()) {
        widen(at(base, first), base_values, n);
        add(base_values, to, to, n);
      }
      if (!in_place) round(values, at(y, first), n);
    }
  });
}

}  // namespace tessera::kernels::cpu
