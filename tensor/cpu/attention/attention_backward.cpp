// Attention's backward, in blocks of keys by blocks of queries. The weights are recomputed from the
// log-sum-exp: five products where the forward has two. A block of keys keeps its gradients in the cache for
// all queries that attend to it; the queries' gradients are added up block by block. The order is fixed
// within a head.

#include "tensor/cpu/attention/attention_extents.h"
#include "tensor/cpu/attention/attention_products.h"
#include "tensor/cpu/layers/attention.h"
#include "tensor/cpu/loops/convert.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t key_block = 128;
constexpr int64_t query_block = 64;
constexpr int64_t transposed_rows = 16;  // keys whose gradients are computed together

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
  void finish(int64_t rows) const {
    if constexpr (!in_place)
      for (int64_t i = 0; i < rows; ++i) narrow_contiguous(sums_.row(i), width_, result_.row(i));
  }

 private:
  Scratch<Sum> memory_;
  int64_t width_;
  HeadRows<Element> result_{};
  HeadRows<Sum> sums_{};
};

/// The backward of one head after another, in one thread's memory.
template <class Products>
class HeadBackward {
 public:
  using Element = typename Products::Element;
  using Sum = typename Products::Sum;

  HeadBackward(const AttentionCall& call, const AttentionGradients& gradients, const AttentionExtents& e)
      : call_(call),
        gradients_(gradients),
        e_(e),
        keys_transposed_(e.width, key_block),
        values_transposed_(e.width, key_block),
        keys_(key_block, e.width),
        queries_(query_block, e.width),
        douts_(query_block, e.width),
        p_transposed_(query_block, key_block),
        ds_transposed_(query_block, key_block),
        s_(query_block * leading),
        dp_(query_block * leading),
        p_(Sums<Element, Sum>::in_place ? 0 : query_block * leading),
        ds_(Sums<Element, Sum>::in_place ? 0 : query_block * leading),
        factors_(leading),
        dots_(e.queries),
        dq_(e.queries, e.width),
        dk_(key_block, e.width),
        dv_(key_block, e.width) {}

  void run(int64_t b, int64_t h) {
    b_ = b;
    h_ = h;
    const auto out = head_of<const Element>(call_.out, b, h),
               dout = head_of<const Element>(gradients_.dout, b, h);
    for (int64_t i = 0; i < e_.queries; ++i)
      dots_.get()[i] = Products::rows().dot(out.row(i), dout.row(i), e_.width);
    dq_.begin(head_of<Element>(gradients_.dq, b, h), 0, e_.queries, true);
    for (int64_t j = 0; j < e_.keys; j += key_block) key_range(j, std::min(key_block, e_.keys - j));
    dq_.finish(e_.queries);
  }

 private:
  static constexpr int64_t leading = row_leading<Sum>(key_block);

  /// The gradients of keys j .. j + count, and their contribution to the queries' gradients.
  void key_range(int64_t j, int64_t count) {
    const auto k = head_of<const Element>(call_.k, b_, h_), v = head_of<const Element>(call_.v, b_, h_);
    keys_transposed_.pack(k.row(j), k.stride, true, e_.width, count);
    values_transposed_.pack(v.row(j), v.stride, true, e_.width, count);
    keys_.pack(k.row(j), k.stride, false, count, e_.width);
    dk_.begin(head_of<Element>(gradients_.dk, b_, h_), j, count, true);
    dv_.begin(head_of<Element>(gradients_.dv, b_, h_), j, count, true);
    for (int64_t i = e_.first_query(j); i < e_.queries; i += query_block)
      query_range(j, count, i, std::min(query_block, e_.queries - i));
    dk_.finish(count);
    dv_.finish(count);
  }

  Element* weights() const {
    if constexpr (Sums<Element, Sum>::in_place)
      return s_.get();
    else
      return p_.get();
  }
  Element* score_gradients() const {
    if constexpr (Sums<Element, Sum>::in_place)
      return dp_.get();
    else
      return ds_.get();
  }

  /// The number of visible keys of query i among the `keys` keys from j on.
  int64_t visible_keys(int64_t i, int64_t j, int64_t keys) const {
    return std::clamp<int64_t>(e_.visible_keys(i) - j, 0, keys);
  }

  void query_range(int64_t j, int64_t keys, int64_t first, int64_t rows) {
    const auto q = head_of<const Element>(call_.q, b_, h_),
               dout = head_of<const Element>(gradients_.dout, b_, h_);
    for (int64_t r = 0; r < rows; r += attention_tile)
      query_tile(j, keys, first, r, std::min(attention_tile, rows - r));
    queries_.pack(q.row(first), q.stride, false, rows, e_.width);
    douts_.pack(dout.row(first), dout.stride, false, rows, e_.width);
    p_transposed_.pack(weights(), leading, rows, keys);
    ds_transposed_.pack(score_gradients(), leading, rows, keys);
    for (int64_t t = 0; t < keys; t += transposed_rows) {
      // Key j + t is hidden from the queries before `begin`: their weights are 0. bf16 pairs begin at even
      // queries.
      const int64_t begin = std::max<int64_t>(e_.first_query(j + t) - first, 0) / 2 * 2;
      if (begin >= rows) break;
      const int64_t count = std::min(transposed_rows, keys - t);
      Products::multiply_transposed(count, e_.width, rows - begin, p_transposed_, t, begin, douts_,
                                    dv_.row(t), dv_.stride());
      Products::multiply_transposed(count, e_.width, rows - begin, ds_transposed_, t, begin, queries_,
                                    dk_.row(t), dk_.stride());
    }
  }

  /// The weights and score gradients of up to eight queries, from row r of the block on, and dq.
  void query_tile(int64_t j, int64_t keys, int64_t first, int64_t r, int64_t rows) {
    const auto q = head_of<const Element>(call_.q, b_, h_),
               dout = head_of<const Element>(gradients_.dout, b_, h_);
    const int64_t query = first + r, width = visible_keys(query + rows - 1, j, keys);
    Sum *const s = s_.get() + r * leading, *const dp = dp_.get() + r * leading;
    Products::multiply(rows, width, e_.width, q.row(query), q.stride, keys_transposed_, s, leading, false);
    Products::multiply(rows, width, e_.width, dout.row(query), dout.stride, values_transposed_, dp, leading,
                       false);
    const auto& kernels = Products::rows();
    const AttentionQuery<Sum> head(call_, e_, b_, h_);
    const auto lse = log_sum_exps_of<Sum>(call_, b_ * e_.heads + h_, query);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t i = query + t, n = visible_keys(i, j, keys), at = t * leading;
      const Sum scale = head.apply_mask(kernels, i, j, n, s + at);
      const Sum* const factors = head.dropout_factors(kernels, i, j, n, factors_.get());
      kernels.score_gradients({n, keys, scale, static_cast<Sum>(call_.scale)}, s + at, dp + at,
                              lse.largest[t], lse.log_sum[t], dots_.get()[i], factors,
                              weights() + r * leading + at, score_gradients() + r * leading + at);
    }
    Products::multiply(rows, e_.width, width, score_gradients() + r * leading, leading, keys_, dq_.row(query),
                       dq_.stride(), true);
  }

  const AttentionCall& call_;
  const AttentionGradients& gradients_;
  const AttentionExtents& e_;
  int64_t b_ = 0, h_ = 0;
  typename Products::Right keys_transposed_, values_transposed_, keys_, queries_, douts_;
  typename Products::TransposedLeft p_transposed_, ds_transposed_;
  Scratch<Sum> s_, dp_;
  Scratch<Element> p_, ds_;
  Scratch<Sum> factors_, dots_;
  Sums<Element, Sum> dq_, dk_, dv_;
};

template <class Products>
void backward(const AttentionCall& call, const AttentionGradients& gradients) {
  const AttentionExtents e(call);
  parallel_for(e.batch * e.heads, 1, [&](int64_t begin, int64_t end) {
    HeadBackward<Products> head(call, gradients, e);
    for (int64_t i = begin; i < end; ++i) head.run(i / e.heads, i % e.heads);
  });
}

}  // namespace

void attention_backward(const AttentionCall& call, const Tensor& dout, const Tensor& dq, const Tensor& dk,
                        const Tensor& dv) {
  const AttentionGradients gradients{dout, dq, dk, dv};
  switch (call.q.dtype()) {
    case f64:
      return backward<WideProducts<double>>(call, gradients);
    case bf16:
      return backward<Bf16Products>(call, gradients);
    default:
      return backward<WideProducts<float>>(call, gradients);
  }
}

}  // namespace tessera::kernels::cpu
