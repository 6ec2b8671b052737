#pragma once  // internal

#include "tensor/cuda/attention/arguments.cuh"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/random/philox.h"

/// Which weights of a head exist, what is added to their scores, and which of them dropout keeps.
namespace tessera::kernels::cuda::fused_attention {

/// A range of queries or keys.
struct Range {
  int32_t begin, end;
  __device__ bool contains(int32_t i) const { return i >= begin && i < end; }
};

__device__ inline int32_t clamped(int64_t value, int32_t limit) {
  return static_cast<int32_t>(value < 0 ? 0 : value > limit ? limit : value);
}

/// One head of q.
template <class A>
class Visibility {
 public:
  __device__ Visibility(const Weights<A>& weights, int b, int h)
      : weights_(weights), b_(b), h_(h), position_(weights.position(b)) {}

  /// The keys that causality and the window leave visible to query i. The ends do not fall from one query to
  /// the next.
  __device__ Range keys_of(int32_t i) const {
    const int64_t position = position_ + i, window = weights_.window;
    const int32_t keys = weights_.keys;
    const int32_t end = weights_.causal ? clamped(position + 1, keys)
                        : window > 0    ? clamped(position + window, keys)
                                        : keys;
    return {window > 0 ? clamped(position - window + 1, keys) : 0, end};
  }
  /// The queries to which key j is visible.
  __device__ Range queries_of(int32_t j) const {
    const int64_t first = j - position_, window = weights_.window;
    const int32_t queries = weights_.queries;
    const int32_t begin = weights_.causal ? clamped(first, queries)
                          : window > 0    ? clamped(first - window + 1, queries)
                                          : 0;
    return {begin, window > 0 ? clamped(first + window, queries) : queries};
  }
  /// Of queries first .. first + count: every key that one of them may see.
  __device__ Range keys_of(int32_t first, int32_t count) const {
    const int32_t last = min(first + count, weights_.queries) - 1;
    return {keys_of(first).begin, keys_of(last).end};
  }
  /// Of keys first .. first + count: every query that may see one of them.
  __device__ Range queries_of(int32_t first, int32_t count) const {
    const int32_t last = min(first + count, weights_.keys) - 1;
    return {queries_of(first).begin, queries_of(last).end};
  }

  /// The product of query i and key j, scaled, with the additive mask and ALiBi's bias.
  __device__ A score(A product, int32_t i, int32_t j) const {
    if (weights_.added == nullptr && weights_.slopes.size == 0) return product * weights_.scale;
    A scale = weights_.scale;
    if (weights_.added != nullptr) {
      product = elementwise::fma(product, scale, weights_.added[mask_offset(i, j)]);
      scale = A(1);
    }
    if (weights_.slopes.size > 0) {
      const A distance = static_cast<A>(position_ + i - j);
      product = elementwise::fma(product, scale, -weights_.slopes[h_] * elementwise::abs(distance));
    }
    return product;
  }

  /// Whether the mask of bools shows key j to query i.
  __device__ bool is_shown(int32_t i, int32_t j) const {
    return weights_.visible[mask_offset(i, j)].byte != 0;
  }

  /// Bit n: whether dropout keeps the weight of query i and key `first` + n, for 32 keys.
  __device__ uint32_t kept_word(int32_t i, int32_t first) const {
    const uint64_t element =
        (static_cast<uint64_t>(h_) * weights_.queries + i) * static_cast<uint64_t>(weights_.keys) + first;
    const uint32_t sample = weights_.sample(b_), lead = element % 4;
    uint64_t kept = 0;  // from the first block's begin on
    const int blocks = lead == 0 ? 8 : 9;
    for (int block = 0; block < blocks; ++block) {
      const elementwise::PhiloxBlock bits =
          elementwise::random_block(weights_.dropout.key, element / 4 + block, sample, weights_.dropout.step);
#pragma unroll
      for (int word = 0; word < 4; ++word)
        kept |= static_cast<uint64_t>(bits.word[word] >= weights_.dropout.threshold) << (4 * block + word);
    }
    return static_cast<uint32_t>(kept >> lead);
  }

 private:
  __device__ int64_t mask_offset(int32_t i, int32_t j) const {
    const int64_t* strides = weights_.mask_strides;
    return b_ * strides[0] + h_ * strides[1] + i * strides[2] + j * strides[3];
  }

  const Weights<A>& weights_;
  int b_, h_;
  int64_t position_;
};

/// The bits of a tile of queries and keys in shared memory: which pairs a mask of bools shows, and which
/// dropout keeps. A word holds 32 keys of a query.
template <int queries, int keys>
struct TileBits {
  static constexpr int words = keys / 32;
  uint32_t shown[queries][words], kept[queries][words];

  /// Fills what the call needs for the tile that begins at query i and key j. All `threads` of the block take
  /// part; a barrier must follow. A warp reads 32 neighbouring elements of the mask at once.
  template <int threads, class A>
  __device__ void fill(const Weights<A>& weights, const Visibility<A>& visibility, int32_t i, int32_t j) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (weights.visible != nullptr) {
      for (int at = static_cast<int>(threadIdx.x) / 32; at < queries * words; at += threads / 32) {
        const int32_t query = i + at / words, key = j + at % words * 32 + lane;
        const bool is_shown =
            query < weights.queries && key < weights.keys && visibility.is_shown(query, key);
        const uint32_t word = __ballot_sync(0xffffffffu, is_shown);
        if (lane == 0) shown[at / words][at % words] = word;
      }
    }
    if (weights.dropout.drops) {
      for (int at = static_cast<int>(threadIdx.x); at < queries * words; at += threads)
        kept[at / words][at % words] = visibility.kept_word(i + at / words, j + at % words * 32);
    }
  }
  /// Of query and key as counted from the tile's first ones.
  /// @{
  __device__ bool is_shown(int query, int key) const { return shown[query][key / 32] >> key % 32 & 1; }
  __device__ bool is_kept(int query, int key) const { return kept[query][key / 32] >> key % 32 & 1; }
  /// @}
};

}  // namespace tessera::kernels::cuda::fused_attention
