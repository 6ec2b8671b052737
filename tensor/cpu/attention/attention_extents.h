#pragma once  // internal

#include <algorithm>

#include "tensor/cpu/attention/attention_rows.h"
#include "tensor/cpu/layers/attention.h"

namespace tessera::kernels::cpu {

/// The matrix of a head, with rows `stride` elements apart.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
  T* row(int64_t i) const { return data + i * stride; }
};

template <class T>
HeadRows<T> head_of(const Tensor& x, int64_t b, int64_t h) {
  return {static_cast<T*>(x.raw_data()) + b * x.strides()[0] + h * x.strides()[1], x.strides()[2]};
}

/// Both values of the log-sum-exps of a head's queries.
template <class A>
struct LogSumExps {
  A *largest, *log_sum;
};
/// From query `first` on; `head` counts over batch and heads.
template <class A>
LogSumExps<A> log_sum_exps_of(const AttentionCall& call, int64_t head, int64_t first) {
  const Tensor& both = call.log_sum_exp;
  A* const largest = static_cast<A*>(both.raw_data()) + head * both.shape()[3] + first;
  return {largest, largest + both.numel() / 2};
}

/// The sizes of a call, and which keys are visible to a query.
struct AttentionExtents {
  int64_t batch, heads, queries, keys, width;
  bool causal;

  explicit AttentionExtents(const AttentionCall& call)
      : batch(call.q.shape()[0]),
        heads(call.q.shape()[1]),
        queries(call.q.shape()[2]),
        keys(call.k.shape()[2]),
        width(call.q.shape()[3]),
        causal(call.causal) {}

  /// The number of keys that are visible to query i: the first ones.
  int64_t visible_keys(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + 1 + keys - queries, 0, keys) : keys;
  }
  /// The first query to which key j is visible.
  int64_t first_query(int64_t j) const {
    return causal ? std::clamp<int64_t>(j - (keys - queries), 0, queries) : 0;
  }
};

/// The mask and the dropout of one head.
template <class A>
class AttentionQuery {
 public:
  AttentionQuery(const AttentionCall& call, const AttentionExtents& e, int64_t b, int64_t h)
      : call_(call), e_(e), b_(b), h_(h), sample_(call.samples.empty() ? b : call.samples[b]) {}

  /// Applies the mask's elements j .. j + n to the products s of query i. Returns the scale that is not
  /// applied yet.
  template <class Rows>
  A apply_mask(const Rows& rows, int64_t i, int64_t j, int64_t n, A* s) const {
    const A scale = static_cast<A>(call_.scale);
    if (!call_.mask.defined()) return scale;
    const Strides& strides = call_.mask.strides();
    const int64_t at = b_ * strides[0] + h_ * strides[1] + i * strides[2] + j * strides[3];
    if (call_.mask.dtype() == boolean)
      rows.hide(static_cast<const bool*>(call_.mask.raw_data()) + at, strides[3], n, scale, s);
    else
      rows.add_mask(static_cast<const A*>(call_.mask.raw_data()) + at, strides[3], n, scale, s);
    return A(1);
  }

  /// The dropout factors of weights j .. j + n of query i, in `buffer`; null without dropout.
  template <class Rows>
  const A* dropout_factors(const Rows& rows, int64_t i, int64_t j, int64_t n, A* buffer) const {
    if (call_.dropout == 0) return nullptr;
    rows.dropout_factors(
        dropout_row(call_.dropout, call_.key, call_.step, sample_, (h_ * e_.queries + i) * e_.keys + j),
        buffer, n);
    return buffer;
  }

  /// Where to draw the mask of a sample from, beginning with element `first`.
  static MaskRow dropout_row(double dropout, uint64_t key, int64_t step, int64_t sample, int64_t first) {
    return {.key = key,
            .first = static_cast<uint64_t>(first),
            .threshold = static_cast<uint64_t>(dropout * 0x1p32 + 0.5),
            .sample = static_cast<uint32_t>(sample),
            .step = static_cast<uint32_t>(step),
            .scale = 1.0 / (1.0 - dropout)};
  }

 private:
  const AttentionCall& call_;
  const AttentionExtents& e_;
  int64_t b_, h_, sample_;
};

}  // namespace tessera::kernels::cpu
