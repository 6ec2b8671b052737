#include "autograd/functions/layers/attention.h"

#include <cmath>

#include "autograd/autocast/operands.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/reduction.h"
#include "tensor/random/random_context.h"

namespace tessera {
namespace {

double scale_of(const AttentionOptions& options, int64_t width) {
  return options.scale != 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(width));
}

/// The options of a forward and the random context in which it drew its mask, for the backward.
struct ForwardContext {
  AttentionOptions options;
  RandomContext context;
  explicit ForwardContext(const AttentionOptions& o)
      : options(o), context(o.dropout > 0 ? random_context() : RandomContext()) {}
};

/// Dropout needs the samples along the first dimension of x: throws where x has another layout.
void require_samples_first(const char* where, const Variable& x, const AttentionOptions& options) {
  if (options.dropout == 0) return;
  const Shape& shape = x.shape();  // throws for an undefined x, which has no layout
  require<ValueError>(
      x.impl()->current().samples.kind == SampleLayout::Kind::first, where,
      ": dropout expects the samples along the first dimension of ", shape,
      ", and they lie elsewhere; transpose it, or set the layout by set_sample_layout(x, samples_along(0))");
}

/// The composed weights (B, H, T_q, T_k).
struct Weights {
  Variable before_dropout, after_dropout;
};

/// The positions of the queries less those of the keys, i64: (T_q, T_k), or (B, 1, T_q, T_k) where rows have
/// positions of their own.
Tensor distances(const Variable& q, const Variable& k, const AttentionOptions& o) {
  const int64_t queries = q.size(2), keys = k.size(2);
  const Device device = q.device();
  const Tensor key = ops::arange(keys, i64, device);
  if (o.first_positions.empty())
    return ops::sub(ops::arange(keys - queries, keys, 1, i64, device).unsqueeze(1), key);
  const Tensor first = Tensor::from(o.first_positions, {q.size(0), 1, 1, 1}).to(device);
  return ops::sub(ops::add(first, ops::arange(queries, i64, device).unsqueeze(1)), key);
}

/// k or v (B, H_k, T, D) with each head as often as q has heads for it: (B, H, T, D).
Variable repeat_heads(const Variable& x, const Variable& q) {
  const auto [batch, heads, time, width] = x.dims<4>();
  const int64_t group = q.size(1) / heads;
  if (group == 1) return x;
  return reshape(expand(unsqueeze(x, 2), {batch, heads, group, time, width}),
                 {batch, heads * group, time, width});
}

/// The gradient of x from that of its repeated heads.
Variable sum_heads(const Variable& gradient, const Variable& x) {
  const auto [batch, heads, time, width] = x.dims<4>();
  const int64_t group = gradient.size(1) / heads;
  if (group == 1) return gradient;
  return sum(reshape(gradient, {batch, heads, group, time, width}), {2});
}

/// The scaled products with the bias of ALiBi and the hidden ones at minus infinity, but for the mask.
Variable scores_of(const Variable& q, const Variable& k, const AttentionOptions& o) {
  const double lowest = -std::numeric_limits<double>::infinity();
  Variable scores = matmul(q, transpose(k, -1, -2)) * scale_of(o, q.size(3));
  if (!o.causal && !o.window && o.alibi_slopes.empty()) return scores;
  const Tensor distance = distances(q, k, o), zero = ops::zeros({}, i64, q.device());
  if (!o.alibi_slopes.empty()) {
    const Tensor slopes = Tensor::from(o.alibi_slopes, {q.size(1), 1, 1}).to(q.device());
    const Tensor bias = ops::mul(slopes, ops::cast(ops::neg(ops::abs(distance)), f64));
    scores = scores + Variable(ops::cast(bias, scores.dtype()));
  }
  if (o.causal) scores = masked_fill(scores, ops::less(distance, zero), lowest);
  if (o.window) {
    const Tensor limit = ops::full({}, *o.window, i64, q.device());
    scores = masked_fill(scores, ops::less_equal(limit, ops::abs(distance)), lowest);
  }
  return scores;
}

/// The softmax of scores, and weights of 0 instead of NaN where all scores are minus infinity: what the
/// kernels compute.
Variable softmax_or_zeros(const Variable& scores) {
  const double lowest = -std::numeric_limits<double>::infinity();
  if (scores.size(-1) == 0) return scores;
  const Tensor sees_nothing = ops::equal(ops::max(scores.value(), {-1}, true), lowest);
  const bool is_needed = scores.device().is_meta() || ops::any(sees_nothing).item<bool>();
  if (!is_needed) return softmax(scores, -1);
  return masked_fill(softmax(masked_fill(scores, sees_nothing, 0), -1), sees_nothing, 0);
}

/// What a query without visible keys gets: PyTorch's weights are NaN where they are asked for, its results 0.
enum class SeesNothing : uint8_t { nan, zeros };

/// For k whose heads are repeated.
Weights weights_of(const Variable& q, const Variable& k, const AttentionOptions& o, const Variable& mask,
                   SeesNothing otherwise) {
  const double lowest = -std::numeric_limits<double>::infinity();
  Variable scores = scores_of(q, k, o);
  if (mask.defined())
    scores = mask.dtype() == boolean ? masked_fill(scores, ops::logical_not(mask.value()), lowest)
                                     : scores + cast(mask, scores.dtype());
  const Variable weights = otherwise == SeesNothing::nan ? softmax(scores, -1) : softmax_or_zeros(scores);
  if (o.dropout == 0) return {weights, weights};
  return {weights, weights * Variable(ops::attention_dropout(weights.shape(), o, q.dtype(), q.device()))};
}

/// The weights after dropout; throws as the kernels for other arguments.
Variable checked_weights(const Variable& q, const Variable& k, const AttentionOptions& o,
                         const Variable& mask, SeesNothing otherwise) {
  const Tensor no_value = Tensor::empty(k.shape(), k.dtype(), meta());
  ops::attention(q.value().to(meta()), no_value, no_value, o,
                 mask.defined() ? mask.value().to(meta()) : Tensor());  // checks the arguments
  return weights_of(q, o.enable_gqa ? repeat_heads(k, q) : k, o, mask, otherwise).after_dropout;
}

/// The backward in differentiable functions, for create_graph.
Gradients composed_backward(const Variable& q, const Variable& shared_k, const Variable& shared_v,
                            const Variable& dout, const AttentionOptions& o, const Tensor& mask) {
  const Variable k = repeat_heads(shared_k, q), v = repeat_heads(shared_v, q);
  const Weights w = weights_of(q, k, o, mask, SeesNothing::zeros);
  Variable dw = matmul(dout, transpose(v, -1, -2));
  if (o.dropout > 0) dw = dw * Variable(ops::attention_dropout(dw.shape(), o, q.dtype(), q.device()));
  const Variable p = w.before_dropout;
  const Variable ds = p * (dw - sum(dw * p, {-1}, true)) * scale_of(o, q.size(3));
  return {matmul(ds, k), sum_heads(matmul(transpose(ds, -1, -2), q), shared_k),
          sum_heads(matmul(transpose(w.after_dropout, -1, -2), dout), shared_v)};
}

/// Shape (B, H, T, D) in memory (B, T, H, D).
Tensor empty_time_major(const Tensor& like) {
  return Tensor::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.dtype(), like.device())
      .transpose(1, 2);
}

/// How a product (B, T, (heads + 2 kv_heads) D) holds queries, keys and values.
struct QkvLayout {
  int64_t heads, kv_heads, head_width;

  QkvLayout(const Variable& qkv, int64_t head_count, int64_t kv_head_count)
      : heads(head_count), kv_heads(kv_head_count == 0 ? head_count : kv_head_count) {
    require<ShapeError>(kv_heads >= 1 && heads % kv_heads == 0,
                        "self_attention: expected heads of keys and values that divide the ", heads,
                        " heads of the queries, got ", kv_heads);
    const int64_t all = heads + 2 * kv_heads;
    const bool fits = qkv.ndim() == 3 && heads >= 1 && heads <= qkv.size(2) && qkv.size(2) % all == 0;
    if (kv_heads == heads)
      require<ShapeError>(fits, "self_attention: expected qkv (B, T, 3 C) with C divisible by ", heads,
                          " heads, got ", qkv);
    else
      require<ShapeError>(fits, "self_attention: expected qkv (B, T, (", heads, " + 2 * ", kv_heads,
                          ") D), got ", qkv);
    head_width = qkv.size(2) / all;
  }
  int64_t width() const { return heads * head_width; }

  /// Queries (0), keys (1) or values (2) as (B, H, T, D).
  template <class X>
  X part(const X& qkv, int which) const {
    const int64_t count = which == 0 ? heads : kv_heads,
                  first = which == 0 ? 0 : heads + (which - 1) * kv_heads;
    const Shape shape{qkv.size(0), qkv.size(1), count, head_width};
    if constexpr (std::is_same_v<X, Tensor>)
      return qkv.narrow(2, first * head_width, count * head_width).view(shape).transpose(1, 2);
    else
      return transpose(reshape(narrow(qkv, 2, first * head_width, count * head_width), shape), 1, 2);
  }
};

}  // namespace

Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      const AttentionOptions& options, const Variable& mask) {
  if (autocast::lowers(q, k, v)) [[unlikely]]
    return scaled_dot_product_attention(autocast::low(q), autocast::low(k), autocast::low(v), options, mask);
  if (options.enable_gqa)
    for (const Variable* x : {&k, &v})
      require<ShapeError>(
          q.ndim() == 4 && x->ndim() == 4 && x->size(1) > 0 && q.size(1) % x->size(1) == 0,
          "scaled_dot_product_attention: with enable_gqa the heads of k and v must divide those of "
          "q, got q ",
          q.shape(), " and k or v ", x->shape());
  require_samples_first("scaled_dot_product_attention", q, options);
  if (mask.requires_grad()) {
    const Variable v_of_head = options.enable_gqa ? repeat_heads(v, q) : v;
    return matmul(checked_weights(q, k, options, mask, SeesNothing::zeros), v_of_head);
  }
  const Tensor mask_value = mask.defined() ? mask.value() : Tensor();
  const auto compute = [&]() -> std::vector<Tensor> {
    const ops::Attention result = ops::attention(q.value(), k.value(), v.value(), options, mask_value);
    return {result.out, result.log_sum_exp};
  };
  return record(
      "scaled_dot_product_attention", compute, {q, k, v},
      saved(q, k, v, saved_output(0), saved_output(1), mask_value),
      [forward = ForwardContext(options)](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        RandomContextScope forward_context(forward.context);
        if (grad_mode()) return composed_backward(s[0], s[1], s[2], dy[0], forward.options, s.tensor(5));
        const Tensor q_value = s.tensor(0), k_value = s.tensor(1), v_value = s.tensor(2);
        const Tensor dq = empty_time_major(q_value), dk = empty_time_major(k_value),
                     dv = empty_time_major(v_value);
        ops::attention_backward(q_value, k_value, v_value, {s.tensor(3), s.tensor(4)}, dy[0].value(),
                                forward.options, dq, dk, dv, s.tensor(5));
        return {Variable(dq), Variable(dk), Variable(dv)};
      })[0];
}

Variable attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options,
                           const Variable& mask) {
  if (autocast::lowers(q, k)) [[unlikely]]
    return attention_weights(autocast::low(q), autocast::low(k), options, mask);
  require_samples_first("attention_weights", q, options);
  return checked_weights(q, k, options, mask, SeesNothing::nan);
}

Variable self_attention(const Variable& qkv, int64_t heads, const AttentionOptions& given, const Tensor& mask,
                        int64_t kv_heads) {
  if (autocast::lowers(qkv)) [[unlikely]]
    return self_attention(autocast::low(qkv), heads, given, mask, kv_heads);
  const QkvLayout layout(qkv, heads, kv_heads);
  AttentionOptions options = given;
  options.enable_gqa = layout.kv_heads != layout.heads;
  require_samples_first("self_attention", qkv, options);
  const auto compute = [&]() -> std::vector<Tensor> {
    const Tensor x = qkv.value();
    const ops::Attention result =
        ops::attention(layout.part(x, 0), layout.part(x, 1), layout.part(x, 2), options, mask);
    return {result.out.transpose(1, 2).view({x.size(0), x.size(1), layout.width()}), result.log_sum_exp};
  };
  return record(
      "self_attention", compute, {qkv}, saved(qkv, saved_output(0), saved_output(1), mask),
      [forward = ForwardContext(options), layout](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
        RandomContextScope forward_context(forward.context);
        const Shape heads_apart{dy[0].size(0), dy[0].size(1), layout.heads, layout.head_width};
        if (grad_mode()) {
          const Variable all = s[0];
          Gradients gradients =
              composed_backward(layout.part(all, 0), layout.part(all, 1), layout.part(all, 2),
                                transpose(reshape(dy[0], heads_apart), 1, 2), forward.options, s.tensor(3));
          std::vector<Variable> parts;
          for (size_t i = 0; i < 3; ++i)
            parts.push_back(reshape(transpose(gradients[i], 1, 2),
                                    {all.size(0), all.size(1), gradients[i].size(1) * layout.head_width}));
          return {cat(parts, 2)};
        }
        const auto split_heads = [&](const Tensor& t) { return t.view(heads_apart).transpose(1, 2); };
        const Tensor all = s.tensor(0), gradient = Tensor::empty_like(all);
        ops::attention_backward(
            layout.part(all, 0), layout.part(all, 1), layout.part(all, 2),
            {split_heads(s.tensor(1)), s.tensor(2)}, split_heads(dy[0].value().contiguous()), forward.options,
            layout.part(gradient, 0), layout.part(gradient, 1), layout.part(gradient, 2), s.tensor(3));
        return {Variable(gradient)};
      })[0];
}

}  // namespace tessera
