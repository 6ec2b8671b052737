#pragma once  // internal

#include <cstring>

#include "tensor/cpu/attention/attention_rows.h"
#include "tensor/cpu/isa/lanes.h"
#include "tensor/cpu/isa/philox_lanes.h"

/// The factors that dropout applies to rows of attention weights. Test:
/// tests/tensor/cpu/attention_rows_test.cpp.
namespace tessera::kernels::cpu::TESSERA_ISA {

/// Elements of which the factors are computed at once.
constexpr int64_t factor_group = 4 * philox_lanes;

/// Words as factors.
template <class A>
class Factors {
 public:
  explicit Factors(const MaskRow& mask)
      : threshold_(mask.threshold > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(mask.threshold)),
        scale_(static_cast<A>(mask.scale)) {}

  /// The whole vectors of which one of the first `left` elements is a part.
  [[gnu::always_inline]] void store(const uint32_t (&words)[factor_group], int64_t left, A* out) const {
    for (int64_t i = 0; i < factor_group && i < left; i += lane_count<A>)
#pragma GCC unroll 1
      for (int j = 0; j < lane_count<A>; ++j) out[i + j] = words[i + j] < threshold_ ? A(0) : scale_;
  }

 private:
  uint32_t threshold_;
  A scale_;
};

/// A row that begins with any word of a block.
template <class A>
void factors_of_row(const MaskRow& mask, const PhiloxKeys& keys, const Factors<A>& factors, uint64_t element,
                    int64_t n, A* out) {
  uint32_t words[factor_group];
  A group[factor_group];
  const auto lead = static_cast<int64_t>(element % 4);  // words of the first block before `element`
  uint64_t block = element / 4;
  for (int64_t done = -lead; done < n; done += factor_group, block += philox_lanes) {
    philox_words<1>(keys, block, mask.sample, mask.step, words);
    factors.store(words, factor_group, group);
    const int64_t begin = done < 0 ? -done : 0, end = n - done < factor_group ? n - done : factor_group;
    std::memcpy(out + done + begin, group + begin, static_cast<size_t>(end - begin) * sizeof(A));
  }
  for (int64_t i = n; n > 0 && i < (n + lane_count<A> - 1) / lane_count<A> * lane_count<A>; ++i)
    out[i] = A(0);
}

/// Rows of which the words are computed together: as many chains of products as the registers hold.
constexpr int factor_rows = register_bytes == 64 ? 4 : 2;

/// `factor_rows` rows at a time.
template <class A>
void dropout_factors(const MaskRow& mask, const AttentionRow<A>* rows, int64_t count, int64_t step,
                     int64_t leading, A* out) {
  const PhiloxKeys keys(mask.key);
  const Factors<A> factors(mask);
  const auto row_step = static_cast<uint64_t>(step);
  for (int64_t begin = 0; begin < count; begin += factor_rows) {
    const int64_t end = begin + factor_rows < count ? begin + factor_rows : count;
    const uint64_t element = mask.first + static_cast<uint64_t>(begin) * row_step;
    if (end - begin == 1 || element % 4 != 0 || row_step % 4 != 0) {
      for (int64_t r = begin; r < end; ++r)
        factors_of_row(mask, keys, factors, mask.first + static_cast<uint64_t>(r) * row_step, rows[r].visible,
                       out + r * leading);
      continue;
    }
    uint64_t blocks[factor_rows];
    int64_t visible[factor_rows], most = 0;
    for (int r = 0; r < factor_rows; ++r) {
      blocks[r] = (element + static_cast<uint64_t>(r) * row_step) / 4;
      visible[r] = begin + r < end ? rows[begin + r].visible : 0;
      most = most < visible[r] ? visible[r] : most;
    }
    for (int64_t done = 0; done < most; done += factor_group) {
      uint32_t words[factor_rows][factor_group];
      philox_words(keys, blocks, mask.sample, mask.step, words);
      for (int r = 0; r < factor_rows; ++r) {
        factors.store(words[r], visible[r] - done, out + (begin + r) * leading + done);
        blocks[r] += philox_lanes;
      }
    }
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
