// Attention's forward, eight queries at a time, or 32 on tiles: their products with all visible keys, or with
// a range of them after another, softmax while the rows are in the cache, and the product with v. Keys before
// the first and after the last that one of them sees are left out. Results are divided by the sums of their
// weights at the end (Milakov and Gimelshein 2018; Dao 2023, arXiv:2307.08691). A head's keys and values are
// packed once for all heads of q that share it; for a few queries, as in decoding, they are read in place.
// Threads share the heads, or, where there are few, the tiles of queries; a tile's bits depend on neither.

#include "tensor/cpu/layers/attention.h"

#include "tensor/cpu/attention/attention_extents.h"
#include "tensor/cpu/attention/attention_in_place.h"
#include "tensor/cpu/attention/attention_prefetch.h"
#include "tensor/cpu/attention/attention_products.h"
#include "tensor/cpu/attention/attention_shares.h"
#include "tensor/cpu/gemm/sharing/shared_work.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// The forward of one head after another, in one thread's memory.
template <class Products>
class HeadForward {
 public:
  using Element = typename Products::Element;
  using Sum = typename Products::Sum;
  using Weight = typename Products::Weight;

  HeadForward(const AttentionCall& call, const AttentionExtents& e)
      : call_(call),
        e_(e),
        tile_(Products::tile_rows()),
        range_(std::min(Products::key_range(), e.keys)),
        leading_(row_leading<Weight>(range_)),
        keys_(e.width, e.keys),
        values_(e.keys, e.width),
        s_(tile_ * leading_),
        p_(in_place ? 0 : tile_ * leading_),
        factors_(call.dropout > 0 ? tile_ * leading_ : 0),
        results_(adds_up_in_place ? 0 : tile_ * e.width) {}

  /// Queries `first` to `end` of a head; `first` is a multiple of `attention_tile`.
  void run(int64_t b, int64_t h, int64_t first, int64_t end) {
    pack(b, h / e_.group());
    prefetch_after(b * e_.heads + h, end == e_.queries);
    const VisibleKeys visible(call_, e_, b, h);
    const auto q = head_of<const Element>(call_.q, b, h), out = head_of<const Element>(call_.out, b, h);
    RowPrefetch<Element> queries(q, first + tile_, end, e_.width);
    RowPrefetch<Element, true> results(out, first + tile_, end, e_.width);
    const int64_t tiles = (end - first + tile_ - 1) / tile_, rows = (e_.keys + tiles - 1) / tiles;
    for (int64_t i = first; i < end; i += tile_) {  // leaves sums where their logarithms belong
      queries.step(tile_);
      results.step(tile_);
      if (tiles > 1) {
        next_queries_.step(1);
        next_results_.step(1);
        next_keys_.step(rows);
        next_values_.step(rows);
      }
      query_tile(visible, b, h, i);
    }
    const auto lse = log_sum_exps_of<Sum>(call_, b * e_.heads + h, first);
    Products::rows().take_logarithms(end - first, lse.largest, lse.log_sum);
  }

 private:
  /// Packs a head of k and v, unless the head of q before this one had the same.
  void pack(int64_t b, int64_t key_head) {
    if (packed_ == b * e_.key_heads + key_head) return;
    packed_ = b * e_.key_heads + key_head;
    const auto k = head_of<const Element>(call_.k, b, key_head),
               v = head_of<const Element>(call_.v, b, key_head);
    keys_.pack(k.data, k.stride, true, e_.width, e_.keys);
    values_.pack(v.data, v.stride, false, e_.keys, e_.width);
  }

  /// Prepares to read the first queries of the head after `head`, and its keys and values where they are
  /// others; nothing, unless it comes next.
  void prefetch_after(int64_t head, bool comes_next) {
    const int64_t next = head + 1, b = next / e_.heads, key_head = next % e_.heads / e_.group();
    next_keys_ = next_values_ = next_queries_ = {};
    next_results_ = {};
    if (b == e_.batch || !comes_next) return;
    const int64_t rows = std::min(tile_, e_.queries);
    next_queries_ = {head_of<const Element>(call_.q, b, next % e_.heads), 0, rows, e_.width};
    next_results_ = {head_of<const Element>(call_.out, b, next % e_.heads), 0, rows, e_.width};
    if (b * e_.key_heads + key_head == packed_) return;
    next_keys_ = {head_of<const Element>(call_.k, b, key_head), 0, e_.keys, e_.width};
    next_values_ = {head_of<const Element>(call_.v, b, key_head), 0, e_.keys, e_.width};
  }

  static constexpr bool in_place = std::is_same_v<Weight, Sum>;
  static constexpr bool adds_up_in_place = std::is_same_v<Element, Sum>;

  Weight* weights() const {
    if constexpr (in_place)
      return s_.get();
    else
      return p_.get();
  }
  /// Where the results `out` of a tile are added up.
  HeadRows<Sum> sums_of(const HeadRows<Element>& out) const {
    if constexpr (adds_up_in_place)
      return out;
    else
      return {results_.get(), e_.width};
  }

  void query_tile(const VisibleKeys& visible, int64_t b, int64_t h, int64_t first) {
    const int64_t rows = std::min(tile_, e_.queries - first),
                  begin = visible.begin(first) / key_alignment * key_alignment,
                  end = visible.end(first + rows - 1);
    const auto all = head_of<Element>(call_.out, b, h);
    const HeadRows<Element> out{all.row(first), all.stride};
    const auto lse = log_sum_exps_of<Sum>(call_, b * e_.heads + h, first);
    if (begin >= end) {
      std::fill_n(lse.largest, rows, -infinity);
      std::fill_n(lse.log_sum, rows, Sum(0));
      for (int64_t r = 0; r < rows; ++r) std::fill_n(out.row(r), e_.width, Element(0.0f));
      return;
    }
    const auto& kernels = Products::rows();
    const HeadRows<Sum> sums = sums_of(out);
    Sum factors[attention_tile];
    for (int64_t j = begin; j < end; j += range_) {
      const int64_t keys = std::min(range_, end - j);
      weigh_keys({visible, b, h, first, rows}, j, keys, lse, j > begin ? factors : nullptr);
      if (j > begin) kernels.rescale(sums.data, sums.stride, factors, sums.data, sums.stride, rows, e_.width);
      Products::multiply(rows, e_.width, keys, weights(), leading_, values_, sums.data, sums.stride,
                         j > begin, {.row = j});
    }
    kernels.invert(rows, lse.largest, lse.log_sum, factors);
    Products::result_rows().scale(sums.data, sums.stride, factors, out.data, out.stride, rows, e_.width);
  }

  /// A tile of queries of a head.
  struct QueryTile {
    const VisibleKeys& visible;
    int64_t b, h, first, rows;
  };

  /// The weights of keys j to j + count, not yet divided by their sums, which are left in `lse`; and by what
  /// the results over the keys before are to be multiplied: null where there are none.
  void weigh_keys(const QueryTile& queries, int64_t j, int64_t count, const LogSumExps<Sum>& lse,
                  Sum* rescale) {
    const auto& kernels = Products::rows();
    const auto [visible, b, h, first, rows] = queries;
    const auto q = head_of<const Element>(call_.q, b, h);
    Products::multiply(rows, Products::score_columns(count), e_.width, q.row(first), q.stride, keys_,
                       s_.get(), leading_, false, {.column = j});
    const AttentionQuery<Sum> query(call_, e_, visible, b, h);
    AttentionRow<Sum> tile[attention_tile];
    query.begin_rows(kernels, first, rows, j, count, s_.get(), leading_, tile);
    const Sum* const factors = query.dropout_factors(kernels, first, j, tile, rows, leading_, factors_.get());
    kernels.weights({tile, rows, leading_, s_.get(), factors, weights(), lse.largest, lse.log_sum, rescale,
                     rescale == nullptr});
  }

  static constexpr Sum infinity = static_cast<Sum>(__builtin_huge_val());

  [[no_unique_address]] typename Products::Scope scope_;
  const AttentionCall& call_;
  const AttentionExtents& e_;
  int64_t tile_, range_, leading_, packed_ = -1;
  typename Products::Right keys_, values_;
  RowPrefetch<Element> next_keys_, next_values_, next_queries_;
  RowPrefetch<Element, true> next_results_;
  Scratch<Sum> s_;
  Scratch<Weight> p_;
  Scratch<Sum> factors_, results_;
};

/// Whether packing keys and values does not pay.
bool has_few_queries(int64_t queries, double dropout) {
  return queries <= vector_tile && dropout == 0;
}

/// A second thread is worth its start from `grain` multiply-adds on.
template <class Products>
void forward(const AttentionCall& call, int64_t grain = attention_grain) {
  const AttentionExtents e(call);
  const QueryShares shares(call, e, num_threads(), grain);
  SharedWork(shares.count())
      .for_each([&](int64_t owner) { return shares.parts(owner); },
                [&] {
                  return [&, head = HeadForward<Products>(call, e)](int64_t owner, int64_t i) mutable {
                    const QueryPart part = shares.part(owner, i);
                    head.run(part.head / e.heads, part.head % e.heads, part.first, part.end);
                  };
                });
}

template <class A>
void dropout_factors(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                     std::span<const int64_t> samples) {
  const int64_t rows = factors.size(1) * factors.size(2), keys = factors.size(3);
  A* const all = factors.data<A>();
  const auto& kernels = WideProducts<A>::rows();
  parallel_for(factors.size(0) * rows, 64, [&](int64_t begin, int64_t end) {
    const Scratch<A> whole_vectors(row_leading<A>(keys));
    const AttentionRow<A> row{keys, keys, A(1), A(1)};
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / rows, sample = samples.empty() ? b : samples[b];
      kernels.dropout_factors(AttentionQuery<A>::dropout_row(dropout, key, step, sample, i % rows * keys),
                              &row, 1, keys, 0, whole_vectors.get());
      std::copy_n(whole_vectors.get(), keys, all + i * keys);
    }
  });
}

}  // namespace

bool attention_takes_bf16() {
  return multiplies_bf16_pairs();
}

bool attention_takes_bf16(int64_t queries, double dropout) {
  return attention_takes_bf16() || has_few_queries(queries, dropout);
}

void attention(const AttentionCall& call) {
  constexpr int64_t grain = 1 << 15;
  if (call.q.dtype() != f64 && has_few_queries(call.q.size(2), call.dropout))
    return call.q.dtype() == bf16 ? forward<InPlaceProducts<bfloat16>>(call, grain)
                                  : forward<InPlaceProducts<float>>(call, grain);
  switch (call.q.dtype()) {
    case f64:
      return forward<WideProducts<double>>(call);
    case bf16:
      return forward<Bf16Products>(call);
    default:
      return forward<WideProducts<float>>(call);
  }
}

void attention_dropout(const Tensor& factors, double dropout, uint64_t key, int64_t step,
                       std::span<const int64_t> samples) {
  factors.dtype() == f64 ? dropout_factors<double>(factors, dropout, key, step, samples)
                         : dropout_factors<float>(factors, dropout, key, step, samples);
}

}  // namespace tessera::kernels::cpu
