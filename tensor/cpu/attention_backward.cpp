// Attention's backward, in blocks of keys by blocks of queries. The weights are computed again from the
// log-sum-exp: five products where the forward has two. A block of keys holds its gradients in the cache
// while all queries that see it pass by; the queries' gradients are added up block by block. The order is
// fixed within a head.

#include "tensor/cpu/attention.h"
#include "tensor/cpu/attention_extents.h"
#include "tensor/cpu/attention_products.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t key_block = 128;
constexpr int64_t query_block = 64;
constexpr int64_t turned_rows = 16;  // keys whose gradients are computed together

/// The gradients' tensors.
struct AttentionGradients {
  const Tensor &dout, &dq, &dk, &dv;
};

/// Where sums of up to `longest` rows are held: the rows of the result itself, or, where that is narrower,
/// memory of our own from which they are rounded once.
template <class Number, class Sum>
class Sums {
 public:
  static constexpr bool in_place = std::is_same_v<Number, Sum>;

  Sums(int64_t longest, int64_t width) : memory_(in_place ? 0 : longest * width), width_(width) {}

  void begin(const HeadRows<Number>& result, int64_t first, int64_t rows, bool zero) {
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
      for (int64_t i = 0; i < rows; ++i) TESSERA_PER_ISA(narrow_bf16)(sums_.row(i), width_, result_.row(i));
  }

 private:
  Scratch<Sum> memory_;
  int64_t width_;
  HeadRows<Number> result_{};
  HeadRows<Sum> sums_{};
};

/// The backward of heads, one after another, in one thread's memory.
template <class Products>
class HeadBackward {
 public:
  using Number = typename Products::Number;
  using Sum = typename Products::Sum;

  HeadBackward(const AttentionCall& call, const AttentionGradients& gradients, const AttentionExtents& e)
      : call_(call),
        gradients_(gradients),
        e_(e),
        keys_turned_(e.width, key_block),
        values_turned_(e.width, key_block),
        keys_(key_block, e.width),
        queries_(query_block, e.width),
        douts_(query_block, e.width),
        p_turned_(query_block, key_block),
        ds_turned_(query_block, key_block),
        s_(query_block * leading),
        dp_(query_block * leading),
        p_(Sums<Number, Sum>::in_place ? 0 : query_block * leading),
        ds_(Sums<Number, Sum>::in_place ? 0 : query_block * leading),
        factors_(leading),
        dots_(e.queries),
        dq_(e.queries, e.width),
        dk_(key_block, e.width),
        dv_(key_block, e.width) {}

  void run(int64_t b, int64_t h) {
    b_ = b;
    h_ = h;
    const auto out = head_of<const Number>(call_.out, b, h),
               dout = head_of<const Number>(gradients_.dout, b, h);
    for (int64_t i = 0; i < e_.queries; ++i)
      dots_.get()[i] = Products::rows().dot(out.row(i), dout.row(i), e_.width);
    dq_.begin(head_of<Number>(gradients_.dq, b, h), 0, e_.queries, true);
    for (int64_t j = 0; j < e_.keys; j += key_block) keys(j, std::min(key_block, e_.keys - j));
    dq_.finish(e_.queries);
  }

 private:
  static constexpr int64_t leading = spread_rows<Sum>(key_block);

  /// The gradients of keys j .. j + count, and what these give to the queries'.
  void keys(int64_t j, int64_t count) {
    const auto k = head_of<const Number>(call_.k, b_, h_), v = head_of<const Number>(call_.v, b_, h_);
    keys_turned_.pack(k.row(j), k.stride, true, e_.width, count);
    values_turned_.pack(v.row(j), v.stride, true, e_.width, count);
    keys_.pack(k.row(j), k.stride, false, count, e_.width);
    dk_.begin(head_of<Number>(gradients_.dk, b_, h_), j, count, true);
    dv_.begin(head_of<Number>(gradients_.dv, b_, h_), j, count, true);
    for (int64_t i = e_.first_query(j); i < e_.queries; i += query_block)
      block(j, count, i, std::min(query_block, e_.queries - i));
    dk_.finish(count);
    dv_.finish(count);
  }

  Number* weights() const {
    if constexpr (Sums<Number, Sum>::in_place)
      return s_.get();
    else
      return p_.get();
  }
  Number* slopes() const {
    if constexpr (Sums<Number, Sum>::in_place)
      return dp_.get();
    else
      return ds_.get();
  }

  /// Of `keys` keys from j on, those that query i sees.
  int64_t seen(int64_t i, int64_t j, int64_t keys) const {
    return std::clamp<int64_t>(e_.seen(i) - j, 0, keys);
  }

  void block(int64_t j, int64_t keys, int64_t first, int64_t rows) {
    const auto q = head_of<const Number>(call_.q, b_, h_),
               dout = head_of<const Number>(gradients_.dout, b_, h_);
    for (int64_t r = 0; r < rows; r += attention_tile)
      tile(j, keys, first, r, std::min(attention_tile, rows - r));
    queries_.pack(q.row(first), q.stride, false, rows, e_.width);
    douts_.pack(dout.row(first), dout.stride, false, rows, e_.width);
    p_turned_.pack(weights(), leading, rows, keys);
    ds_turned_.pack(slopes(), leading, rows, keys);
    for (int64_t t = 0; t < keys; t += turned_rows) {
      // The queries before the first one that sees key j + t have zeros here. Pairs begin at even ones.
      const int64_t begin = std::max<int64_t>(e_.first_query(j + t) - first, 0) / 2 * 2;
      if (begin >= rows) break;
      const int64_t count = std::min(turned_rows, keys - t);
      Products::multiply_turned(count, e_.width, rows - begin, p_turned_, t, begin, douts_, dv_.row(t),
                                dv_.stride());
      Products::multiply_turned(count, e_.width, rows - begin, ds_turned_, t, begin, queries_, dk_.row(t),
                                dk_.stride());
    }
  }

  /// Weights and slopes of up to eight queries, from row r of the block on, and their gradients.
  void tile(int64_t j, int64_t keys, int64_t first, int64_t r, int64_t rows) {
    const auto q = head_of<const Number>(call_.q, b_, h_),
               dout = head_of<const Number>(gradients_.dout, b_, h_);
    const int64_t query = first + r, width = seen(query + rows - 1, j, keys);
    Sum *const s = s_.get() + r * leading, *const dp = dp_.get() + r * leading;
    Products::multiply(rows, width, e_.width, q.row(query), q.stride, keys_turned_, s, leading, false);
    Products::multiply(rows, width, e_.width, dout.row(query), dout.stride, values_turned_, dp, leading,
                       false);
    const auto& kernels = Products::rows();
    const AttentionQuery<Sum> place(call_, e_, b_, h_);
    const auto lse = log_sum_exps_of<Sum>(call_, b_ * e_.heads + h_, query);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t i = query + t, n = seen(i, j, keys), at = t * leading;
      const Sum scale = place.masked(kernels, i, j, n, s + at);
      const Sum* const factors = place.factors(kernels, i, j, n, factors_.get());
      kernels.slopes({n, keys, scale, static_cast<Sum>(call_.scale)}, s + at, dp + at, lse.largest[t],
                     lse.log_sum[t], dots_.get()[i], factors, weights() + r * leading + at,
                     slopes() + r * leading + at);
    }
    Products::multiply(rows, e_.width, width, slopes() + r * leading, leading, keys_, dq_.row(query),
                       dq_.stride(), true);
  }

  const AttentionCall& call_;
  const AttentionGradients& gradients_;
  const AttentionExtents& e_;
  int64_t b_ = 0, h_ = 0;
  typename Products::Right keys_turned_, values_turned_, keys_, queries_, douts_;
  typename Products::Turned p_turned_, ds_turned_;
  Scratch<Sum> s_, dp_;
  Scratch<Number> p_, ds_;
  Scratch<Sum> factors_, dots_;
  Sums<Number, Sum> dq_, dk_, dv_;
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
