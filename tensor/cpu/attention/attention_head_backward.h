#pragma once  // internal

#include <deque>
#include <vector>

#include "tensor/cpu/attention/attention_extents.h"
#include "tensor/cpu/attention/attention_prefetch.h"
#include "tensor/cpu/attention/attention_products.h"
#include "tensor/cpu/layers/attention.h"

/// The gradients of a head of attention.
namespace tessera::kernels::cpu {

inline constexpr int64_t key_block = 128;

/// The gradients of a call.
struct AttentionGradients {
  const Tensor &dout, &dq, &dk, &dv;
};

/// Accumulators of up to `longest` rows: the rows of the result itself, or, where the result is narrower, a
/// buffer that is rounded into it once.
template <class Element, class Sum>
class Sums {
 public:
  static constexpr bool in_place = std::is_same_v<Element, Sum>;

  Sums(int64_t longest, int64_t width) : memory_(in_place ? 0 : longest * width), width_(width) {}

  void begin(const HeadRows<Element>& result, int64_t first, int64_t rows, bool zero) {
    result_ = {result.row(first), result.stride};
    if constexpr (in_place)
      sums_ = result_;
    else
      sums_ = {memory_.get(), width_};
    for (int64_t i = 0; zero && i < rows; ++i) std::fill_n(sums_.row(i), width_, Sum(0));
  }
  Sum* row(int64_t i) const { return sums_.row(i); }
  int64_t stride() const { return sums_.stride; }
  void finish(const AttentionRows<Sum, Element>& kernels, int64_t rows) const {
    if constexpr (!in_place)
      kernels.round(sums_.data, sums_.stride, result_.data, result_.stride, rows, width_);
  }

 private:
  Scratch<Sum> memory_;
  int64_t width_;
  HeadRows<Element> result_{};
  HeadRows<Sum> sums_{};
};

/// The queries that see a block of keys.
struct QueryRange {
  int64_t first, end;
};
inline QueryRange queries_of(const VisibleKeys& visible, const AttentionExtents& e, int64_t j) {
  const int64_t end = std::min(j + key_block, e.keys);
  if (visible.hides(j, end)) return {0, 0};
  return {visible.first_query(j), visible.end_query(end - 1)};
}

/// The backward of one head of k and v after another, in one thread's memory.
template <class Products>
class HeadBackward {
 public:
  using Element = typename Products::Element;
  using Sum = typename Products::Sum;

  HeadBackward(const AttentionCall& call, const AttentionGradients& gradients, const AttentionExtents& e)
      : call_(call),
        gradients_(gradients),
        e_(e),
        tile_(Products::tile_rows()),
        query_block_(Products::query_block()),
        keys_transposed_(e.width, key_block),
        values_transposed_(e.width, key_block),
        keys_(key_block, e.width),
        queries_(query_block_, e.width),
        douts_(query_block_, e.width),
        p_transposed_(query_block_, key_block),
        ds_transposed_(query_block_, key_block),
        s_((in_place ? query_block_ : tile_) * leading),
        dp_((in_place ? query_block_ : tile_) * leading),
        p_(in_place ? 0 : query_block_ * leading),
        ds_(in_place ? 0 : query_block_ * leading),
        factors_(call.dropout > 0 ? tile_ * leading : 0),
        dots_(e.group() * e.queries),
        dk_(key_block, e.width),
        dv_(key_block, e.width) {}

  /// All gradients of a head of k and v, and of the heads of q that share it.
  void run(int64_t b, int64_t key_head) {
    const int64_t next = b * e_.key_heads + key_head + 1;
    while (std::ssize(dqs_) < e_.group()) dqs_.emplace_back(e_.queries, e_.width);
    std::vector<QueryHead> heads;
    for (int64_t g = 0; g < e_.group(); ++g) {
      Sums<Element, Sum>& dq = dqs_[static_cast<size_t>(g)];
      dq.begin(head_of<Element>(gradients_.dq, b, key_head * e_.group() + g), 0, e_.queries, true);
      heads.push_back(query_head(b, key_head, g, {dq.row(0), dq.stride()}));
    }
    for (int64_t j = 0; j < e_.keys; j += key_block) {
      if (!in_place) prefetch_results(b, key_head, j);
      if (j + key_block < e_.keys)
        prefetch(b, key_head, j + key_block);
      else if (next < e_.batch * e_.key_heads)
        prefetch(next / e_.key_heads, next % e_.key_heads, 0);
      key_range(heads, b, key_head, j, std::min(key_block, e_.keys - j));
    }
    for (const Sums<Element, Sum>& dq : dqs_) dq.finish(Products::rows(), e_.queries);
  }

  /// The gradients of the keys from `j` on, a block of them. What they give to the queries' gradients goes to
  /// `dq` (heads that share k and v, queries, width), for the queries that see them.
  void run_block(int64_t b, int64_t key_head, int64_t j, Sum* dq) {
    std::vector<QueryHead> heads;
    for (int64_t g = 0; g < e_.group(); ++g) {
      const HeadRows<Sum> rows{dq + g * e_.queries * e_.width, e_.width};
      const QueryRange seen = queries_of(VisibleKeys(call_, e_, b, key_head * e_.group() + g), e_, j);
      heads.push_back(query_head(b, key_head, g, rows));
      for (int64_t i = seen.first; i < seen.end; ++i) std::fill_n(rows.row(i), e_.width, Sum(0));
    }
    key_range(heads, b, key_head, j, std::min(key_block, e_.keys - j));
  }

 private:
  static constexpr int64_t leading = row_leading<Element>(key_block);
  static constexpr bool in_place = Sums<Element, Sum>::in_place;

  /// A head of q that attends to the present head of k and v.
  struct QueryHead {
    int64_t b, h;
    VisibleKeys visible;
    HeadRows<const Element> q, dout, out;
    Sum* dots;           // of the rows of out and dout
    int64_t dotted = 0;  // queries that have theirs
    HeadRows<Sum> dq;

    /// The dots of queries `first` to `end`. Later calls have later queries.
    void dot(const AttentionExtents& e, int64_t first, int64_t end) {
      first = std::max(first, dotted);
      if (first >= end) return;
      Products::rows().dots(out.row(first), out.stride, dout.row(first), dout.stride, end - first, e.width,
                            dots + first);
      dotted = end;
    }
  };

  /// Head `g` of those that share a head of k and v.
  QueryHead query_head(int64_t b, int64_t key_head, int64_t g, const HeadRows<Sum>& dq) {
    const int64_t h = key_head * e_.group() + g;
    return {.b = b,
            .h = h,
            .visible = VisibleKeys(call_, e_, b, h),
            .q = head_of<const Element>(call_.q, b, h),
            .dout = head_of<const Element>(gradients_.dout, b, h),
            .out = head_of<const Element>(call_.out, b, h),
            .dots = dots_.get() + g * e_.queries,
            .dq = dq};
  }

  /// The gradients of keys j .. j + count, and their contribution to the queries' gradients.
  void key_range(std::vector<QueryHead>& heads, int64_t b, int64_t key_head, int64_t j, int64_t count) {
    dk_.begin(head_of<Element>(gradients_.dk, b, key_head), j, count, true);
    dv_.begin(head_of<Element>(gradients_.dv, b, key_head), j, count, true);
    bool packed = false;
    for (QueryHead& head : heads) {
      if (head.visible.hides(j, j + count)) continue;
      if (!packed) pack(b, key_head, j, count);
      packed = true;
      const int64_t end = head.visible.end_query(j + count - 1);
      for (int64_t i = head.visible.first_query(j); i < end; i += query_block_)
        query_range(head, j, count, i, std::min(query_block_, end - i), end);
    }
    dk_.finish(Products::rows(), count);
    dv_.finish(Products::rows(), count);
  }

  void pack(int64_t b, int64_t key_head, int64_t j, int64_t count) {
    const auto k = head_of<const Element>(call_.k, b, key_head),
               v = head_of<const Element>(call_.v, b, key_head);
    keys_transposed_.pack(k.row(j), k.stride, true, e_.width, count);
    values_transposed_.pack(v.row(j), v.stride, true, e_.width, count);
    keys_.pack(k.row(j), k.stride, false, count, e_.width);
  }

  /// Prepares to read a block of keys and values from `j` on, and before the first one some queries.
  void prefetch(int64_t b, int64_t key_head, int64_t j) {
    const int64_t end = std::min(j + key_block, e_.keys);
    next_keys_ = {head_of<const Element>(call_.k, b, key_head), j, end, e_.width};
    next_values_ = {head_of<const Element>(call_.v, b, key_head), j, end, e_.width};
    if (in_place) prefetch_results(b, key_head, j);
    if (j > 0) return;
    const int64_t h = key_head * e_.group(), queries = std::min(query_block_, e_.queries);
    next_queries_ = {head_of<const Element>(call_.q, b, h), 0, queries, e_.width};
    next_douts_ = {head_of<const Element>(gradients_.dout, b, h), 0, queries, e_.width};
    next_outs_ = {head_of<const Element>(call_.out, b, h), 0, queries, e_.width};
  }

  /// Prepares to write the gradients of a block of keys, and with the first one those of the queries: where
  /// they are added up in place, that begins before the block, and else it comes last.
  void prefetch_results(int64_t b, int64_t key_head, int64_t j) {
    const int64_t end = std::min(j + key_block, e_.keys);
    next_dk_ = {head_of<const Element>(gradients_.dk, b, key_head), j, end, e_.width};
    next_dv_ = {head_of<const Element>(gradients_.dv, b, key_head), j, end, e_.width};
    if (j == 0)
      next_dq_ = {head_of<const Element>(gradients_.dq, b, key_head * e_.group()), 0, e_.queries, e_.width};
  }

  Element* weights() const {
    if constexpr (in_place)
      return s_.get();
    else
      return p_.get();
  }
  Element* score_gradients() const {
    if constexpr (in_place)
      return dp_.get();
    else
      return ds_.get();
  }

  /// Queries first .. first + rows of those up to `end_query` that see the keys.
  void query_range(QueryHead& head, int64_t j, int64_t keys, int64_t first, int64_t rows, int64_t end_query) {
    head.dot(e_, first, first + rows);
    // Queries that have their dots have been read before.
    const int64_t next = std::max(first + rows, head.dotted),
                  next_end = std::min(first + rows + query_block_, end_query);
    RowPrefetch<Element> queries(head.q, next, next_end, e_.width),
        douts(head.dout, next, next_end, e_.width), outs(head.out, next, next_end, e_.width);
    for (int64_t r = 0; r < rows; r += tile_) {
      queries.step(tile_);
      douts.step(tile_);
      outs.step(tile_);
      next_keys_.step(tile_);
      next_values_.step(tile_);
      next_queries_.step(tile_);
      next_douts_.step(tile_);
      next_outs_.step(tile_);
      next_dk_.step(tile_);
      next_dv_.step(tile_);
      next_dq_.step(tile_);
      query_tile(head, j, keys, first, r, std::min(tile_, rows - r));
    }
    queries_.pack(head.q.row(first), head.q.stride, false, rows, e_.width);
    douts_.pack(head.dout.row(first), head.dout.stride, false, rows, e_.width);
    p_transposed_.pack(weights(), leading, rows, keys);
    ds_transposed_.pack(score_gradients(), leading, rows, keys);
    const int64_t column_step = Products::column_step();
    for (int64_t t = 0; t < keys; t += tile_) {
      // Keys j + t and on are hidden from the queries before `begin`, and these from those after `end`: their
      // weights are 0.
      const int64_t count = std::min(tile_, keys - t),
                    begin = std::max<int64_t>(head.visible.first_query(j + t) - first, 0) / column_step *
                            column_step,
                    end = std::min(rows, head.visible.end_query(j + t + count - 1) - first);
      if (begin >= end || head.visible.hides(j + t, j + t + count)) continue;
      Products::multiply_transposed(count, e_.width, end - begin, p_transposed_, t, begin, douts_, dv_.row(t),
                                    dv_.stride());
      Products::multiply_transposed(count, e_.width, end - begin, ds_transposed_, t, begin, queries_,
                                    dk_.row(t), dk_.stride());
    }
  }

  /// The weights and score gradients of a tile of queries, from row r of the block on, and dq.
  void query_tile(const QueryHead& head, int64_t j, int64_t keys, int64_t first, int64_t r, int64_t rows) {
    const int64_t query = first + r,
                  end = std::clamp<int64_t>(head.visible.end(query + rows - 1) - j, 0, keys),
                  step = std::max(tile_, panel_width),
                  begin = std::clamp<int64_t>(head.visible.begin(query) - j, 0, keys) / step * step;
    Element *const p = weights() + r * leading, *const ds = score_gradients() + r * leading;
    if (begin >= end) {
      for (int64_t t = 0; t < rows; ++t) {
        std::fill_n(p + t * leading, keys, Element(0.0f));
        std::fill_n(ds + t * leading, keys, Element(0.0f));
      }
      return;
    }
    // All keys of a tile of keys, of which `query_range` multiplies the weights together.
    const int64_t reach = std::min((end - begin + tile_ - 1) / tile_ * tile_, keys - begin);
    const int64_t columns = Products::score_columns(reach);
    // Weights that are narrower than their products have rows of their own.
    const int64_t at = in_place ? r * leading : 0;
    Sum *const s = s_.get() + at, *const dp = dp_.get() + at;
    Products::multiply(rows, columns, e_.width, head.q.row(query), head.q.stride, keys_transposed_, s + begin,
                       leading, false, {.column = begin});
    Products::multiply(rows, columns, e_.width, head.dout.row(query), head.dout.stride, values_transposed_,
                       dp + begin, leading, false, {.column = begin});
    const auto& kernels = Products::rows();
    const AttentionQuery<Sum> values(call_, e_, head.visible, head.b, head.h);
    const auto lse = log_sum_exps_of<Sum>(call_, head.b * e_.heads + head.h, query);
    // Weights of later keys are not read: the gradients of these begin with a later tile, or are left out.
    const int64_t width = std::min(columns, keys - begin);
    AttentionRow<Sum> tile[attention_tile];
    values.begin_rows(kernels, query, rows, j + begin, width, s + begin, leading, tile);
    const Sum* const factors =
        values.dropout_factors(kernels, query, j + begin, tile, rows, leading, factors_.get());
    kernels.score_gradients({tile, rows, leading, s + begin, dp + begin, lse.largest, lse.log_sum,
                             head.dots + query, factors, p + begin, ds + begin});
    for (int64_t t = 0; begin > 0 && t < rows; ++t) {
      std::fill_n(p + t * leading, begin, Element(0.0f));
      std::fill_n(ds + t * leading, begin, Element(0.0f));
    }
    Products::multiply(rows, e_.width, end - begin, ds + begin, leading, keys_, head.dq.row(query),
                       head.dq.stride, true, {.row = begin});
  }

  [[no_unique_address]] typename Products::Scope scope_;
  const AttentionCall& call_;
  const AttentionGradients& gradients_;
  const AttentionExtents& e_;
  int64_t tile_, query_block_;
  typename Products::Right keys_transposed_, values_transposed_, keys_, queries_, douts_;
  RowPrefetch<Element> next_keys_, next_values_, next_queries_, next_douts_, next_outs_;
  RowPrefetch<Element, true> next_dk_, next_dv_, next_dq_;
  typename Products::TransposedLeft p_transposed_, ds_transposed_;
  Scratch<Sum> s_, dp_;
  Scratch<Element> p_, ds_;
  Scratch<Sum> factors_, dots_;
  std::deque<Sums<Element, Sum>> dqs_;  // per head of q that shares the head of k and v
  Sums<Element, Sum> dk_, dv_;
};

}  // namespace tessera::kernels::cpu
