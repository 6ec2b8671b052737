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

/// Two rows at a time.
template <class A>
void dropout_factors(const MaskRow& mask, const AttentionRow<A>* rows, int64_t count, int64_t step,
                     int64_t leading, A* out) {
  const PhiloxKeys keys(mask.key);
  const Factors<A> factors(mask);
  const auto row_step = static_cast<uint64_t>(step);
  for (int64_t r = 0; r < count; r += 2) {
    const uint64_t element = mask.first + static_cast<uint64_t>(r) * row_step;
    A *const first = out + r * leading, *const second = first + leading;
    const int64_t n = rows[r].visible, m = r + 1 < count ? rows[r + 1].visible : 0;
    if (element % 4 == 0 && row_step % 4 == 0) {
      const uint64_t block = element / 4, other = block + row_step / 4;
      for (int64_t done = 0; done < (n > m ? n : m); done += factor_group) {
        const uint64_t blocks = static_cast<uint64_t>(done) / 4;
        uint32_t words[2][factor_group];
        philox_words(keys, block + blocks, other + blocks, mask.sample, mask.step, words[0], words[1]);
        factors.store(words[0], n - done, first + done);
        factors.store(words[1], m - done, second + done);
      }
      continue;
    }
    factors_of_row(mask, keys, factors, element, n, first);
    if (m > 0) factors_of_row(mask, keys, factors, element + row_step, m, second);
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
