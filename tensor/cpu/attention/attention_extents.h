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

/// The sizes of a call.
struct AttentionExtents {
  int64_t batch, heads, key_heads, queries, keys, width;

  explicit AttentionExtents(const AttentionCall& call)
      : batch(call.q.shape()[0]),
        heads(call.q.shape()[1]),
        key_heads(call.k.shape()[1]),
        queries(call.q.shape()[2]),
        keys(call.k.shape()[2]),
        width(call.q.shape()[3]) {}

  /// Heads of q that share a head of k and v.
  int64_t group() const { return heads / key_heads; }
};

/// Ranges of keys begin at a multiple of this within the packed matrices: a panel of bf16, and two vectors of
/// f32, so that sums over a range add in the order of the whole row.
inline constexpr int64_t key_alignment = 32;

/// The keys that are visible to the queries of one head: a range per query, whose ends do not fall from one
/// query to the next. Within it a mask may hide further ones.
class VisibleKeys {
 public:
  VisibleKeys(const AttentionCall& call, const AttentionExtents& e, int64_t b, int64_t h)
      : queries_(e.queries),
        offset_(call.first_positions.empty() ? e.keys - e.queries
                                             : call.first_positions[static_cast<size_t>(b)]),
        window_(call.window),
        causal_(call.causal),
        end_(e.keys) {
    if (call.mask.defined() && call.mask.dtype() == boolean && call.mask.strides()[2] == 0)
      leave_out_padding(call.mask, b, h);
  }

  /// The position of query i.
  int64_t position(int64_t i) const { return offset_ + i; }
  /// The first key that is visible to query i, and the one after the last: equal where there is none.
  /// @{
  int64_t begin(int64_t i) const {
    return window_ > 0 ? std::clamp(position(i) - window_ + 1, begin_, end_) : begin_;
  }
  int64_t end(int64_t i) const {
    if (causal_) return std::clamp(position(i) + 1, begin_, end_);
    return window_ > 0 ? std::clamp(position(i) + window_, begin_, end_) : end_;
  }
  /// @}
  /// The first query to which key j is visible, and the one after the last.
  /// @{
  int64_t first_query(int64_t j) const {
    if (causal_) return std::clamp<int64_t>(j - offset_, 0, queries_);
    return window_ > 0 ? std::clamp<int64_t>(j - offset_ - window_ + 1, 0, queries_) : 0;
  }
  int64_t end_query(int64_t j) const {
    return window_ > 0 ? std::clamp<int64_t>(j - offset_ + window_, 0, queries_) : queries_;
  }
  /// @}
  /// Whether keys first .. end are hidden from every query.
  bool hides(int64_t first, int64_t end) const {
    return end <= begin_ || first >= end_ || first_query(first) >= end_query(end - 1);
  }

 private:
  /// A mask that is the same for all queries hides the keys before its first and after its last true.
  void leave_out_padding(const Tensor& mask, int64_t b, int64_t h) {
    const Strides& strides = mask.strides();
    const bool* const row = static_cast<const bool*>(mask.raw_data()) + b * strides[0] + h * strides[1];
    while (begin_ < end_ && !row[begin_ * strides[3]]) ++begin_;
    while (end_ > begin_ && !row[(end_ - 1) * strides[3]]) --end_;
  }

  int64_t queries_, offset_, window_;
  bool causal_;
  int64_t begin_ = 0, end_;
};

/// The mask, the bias and the dropout of one head.
template <class A>
class AttentionQuery {
 public:
  AttentionQuery(const AttentionCall& call, const AttentionExtents& e, const VisibleKeys& visible, int64_t b,
                 int64_t h)
      : call_(call),
        e_(e),
        visible_(visible),
        b_(b),
        h_(h),
        sample_(call.samples.empty() ? b : call.samples[b]) {}

  /// `begin_row` for queries i .. i + count, with rows of products `leading` apart.
  template <class Rows>
  void begin_rows(const Rows& kernels, int64_t i, int64_t count, int64_t j, int64_t width, A* s,
                  int64_t leading, AttentionRow<A>* rows) const {
    if (call_.mask.defined() || !call_.slopes.empty() || visible_.begin(i + count - 1) > j) {
      for (int64_t r = 0; r < count; ++r) rows[r] = begin_row(kernels, i + r, j, width, s + r * leading);
      return;
    }
    const A scale = static_cast<A>(call_.scale);
    for (int64_t r = 0; r < count; ++r)
      rows[r] = {std::clamp<int64_t>(visible_.end(i + r) - j, 0, width), width, scale, scale};
  }

  /// Applies the mask and ALiBi's bias to the products s of query i with the keys from j on, and hides those
  /// before its first visible key. Returns the row for the kernels, of which `width` elements are written.
  template <class Rows>
  AttentionRow<A> begin_row(const Rows& rows, int64_t i, int64_t j, int64_t width, A* s) const {
    const int64_t end = std::min(visible_.end(i) - j, width),
                  begin = std::max<int64_t>(visible_.begin(i) - j, 0);
    const A call_scale = static_cast<A>(call_.scale);
    if (begin >= end) return {0, width, call_scale, call_scale};
    A scale = call_scale;
    if (call_.mask.defined()) {
      apply_mask(rows, i, j + begin, end - begin, scale, s + begin);
      scale = A(1);
    }
    if (!call_.slopes.empty()) {
      const A slope = static_cast<A>(call_.slopes[static_cast<size_t>(h_)]);
      rows.add_distances(slope, visible_.position(i) - (j + begin), end - begin, scale, s + begin);
      scale = A(1);
    }
    std::fill_n(s, begin, scale < 0 ? infinity : -infinity);
    return {end, width, scale, call_scale};
  }

  /// The dropout factors of `count` rows of weights, from query i and key j on, in `buffer`, `leading` apart;
  /// null without dropout.
  template <class Rows>
  const A* dropout_factors(const Rows& kernels, int64_t i, int64_t j, const AttentionRow<A>* rows,
                           int64_t count, int64_t leading, A* buffer) const {
    if (call_.dropout == 0) return nullptr;
    kernels.dropout_factors(
        dropout_row(call_.dropout, call_.key, call_.step, sample_, (h_ * e_.queries + i) * e_.keys + j), rows,
        count, e_.keys, leading, buffer);
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
  static constexpr A infinity = static_cast<A>(__builtin_huge_val());

  template <class Rows>
  void apply_mask(const Rows& rows, int64_t i, int64_t j, int64_t n, A scale, A* s) const {
    const Strides& strides = call_.mask.strides();
    const int64_t at = b_ * strides[0] + h_ * strides[1] + i * strides[2] + j * strides[3];
    if (call_.mask.dtype() == boolean)
      rows.hide(static_cast<const bool*>(call_.mask.raw_data()) + at, strides[3], n, scale, s);
    else
      rows.add_mask(static_cast<const A*>(call_.mask.raw_data()) + at, strides[3], n, scale, s);
  }

  const AttentionCall& call_;
  const AttentionExtents& e_;
  const VisibleKeys& visible_;
  int64_t b_, h_, sample_;
};

}  // namespace tessera::kernels::cpu
