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
#include "tensor/ops/elementwise/ternary.h"
#include "tensor/ops/elementwise/unary.h"
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

Weights weights_of(const Variable& q, const Variable& k, const AttentionOptions& o, const Variable& mask) {
  const int64_t queries = q.size(2), keys = k.size(2);
  const double lowest = -std::numeric_limits<double>::infinity();
  Variable scores = matmul(q, transpose(k, -1, -2)) * scale_of(o, q.size(3));
  if (o.causal) {
    const Tensor row = ops::arange(keys - queries, keys, 1, i64, q.device()).unsqueeze(1);
    scores = masked_fill(scores, ops::less(row, ops::arange(keys, i64, q.device())), lowest);
  }
  if (mask.defined())
    scores = mask.dtype() == boolean ? masked_fill(scores, ops::logical_not(mask.value()), lowest)
                                     : scores + cast(mask, scores.dtype());
  const Variable weights = softmax(scores, -1);
  if (o.dropout == 0) return {weights, weights};
  return {weights, weights * Variable(ops::attention_dropout(weights.shape(), o, q.dtype(), q.device()))};
}

/// The backward in differentiable functions, for create_graph.
Gradients composed_backward(const Variable& q, const Variable& k, const Variable& v, const Variable& dout,
                            const AttentionOptions& o, const Tensor& mask) {
  const Weights w = weights_of(q, k, o, mask);
  Variable dw = matmul(dout, transpose(v, -1, -2));
  if (o.dropout > 0) dw = dw * Variable(ops::attention_dropout(dw.shape(), o, q.dtype(), q.device()));
  const Variable p = w.before_dropout;
  const Variable ds = p * (dw - sum(dw * p, {-1}, true)) * scale_of(o, q.size(3));
  return {matmul(ds, k), matmul(transpose(ds, -1, -2), q), matmul(transpose(w.after_dropout, -1, -2), dout)};
}

/// Shape (B, H, T, D) in memory (B, T, H, D).
Tensor empty_time_major(const Tensor& like) {
  return Tensor::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.dtype(), like.device())
      .transpose(1, 2);
}

/// A third of qkv (B, T, 3 C) as (B, H, T, D).
template <class X>
X qkv_third(const X& qkv, int64_t heads, int64_t which) {
  if constexpr (std::is_same_v<X, Tensor>) {
    const int64_t width = qkv.size(2) / 3;
    return qkv.narrow(2, which * width, width)
        .view({qkv.size(0), qkv.size(1), heads, width / heads})
        .transpose(1, 2);
  } else {
    const int64_t width = qkv.size(2) / 3;
    const Variable third = narrow(qkv, 2, which * width, width);
    return transpose(reshape(third, {qkv.size(0), qkv.size(1), heads, width / heads}), 1, 2);
  }
}

/// k or v (B, H_k, T, D) with each head as often as q has queries' heads for it: (B, H, T, D).
Variable repeat_heads(const Variable& x, const Variable& q) {
  require<ShapeError>(
      q.ndim() == 4 && x.ndim() == 4 && x.size(1) > 0 && q.size(1) % x.size(1) == 0,
      "scaled_dot_product_attention: with enable_gqa the heads of k and v must divide those of "
      "q, got q ",
      q.shape(), " and k or v ", x.shape());
  const auto [batch, heads, time, width] = x.dims<4>();
  const int64_t group = q.size(1) / heads;
  if (group == 1) return x;
  return reshape(expand(unsqueeze(x, 2), {batch, heads, group, time, width}),
                 {batch, heads * group, time, width});
}

}  // namespace

Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      const AttentionOptions& options, const Variable& mask) {
  if (autocast::lowers(q, k, v)) [[unlikely]]
    return scaled_dot_product_attention(autocast::low(q), autocast::low(k), autocast::low(v), options, mask);
  if (options.enable_gqa) {
    AttentionOptions equal_heads = options;
    equal_heads.enable_gqa = false;
    return scaled_dot_product_attention(q, repeat_heads(k, q), repeat_heads(v, q), equal_heads, mask);
  }
  require_samples_first("scaled_dot_product_attention", q, options);
  if (mask.requires_grad()) return matmul(weights_of(q, k, options, mask).after_dropout, v);
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

Variable self_attention(const Variable& qkv, int64_t heads, const AttentionOptions& options,
                        const Tensor& mask) {
  if (autocast::lowers(qkv)) [[unlikely]]
    return self_attention(autocast::low(qkv), heads, options, mask);
  require<ShapeError>(qkv.ndim() == 3 && heads >= 1 && heads <= qkv.size(2) && qkv.size(2) % (3 * heads) == 0,
                      "self_attention: expected qkv (B, T, 3 C) with C divisible by ", heads, " heads, got ",
                      qkv);
  require_samples_first("self_attention", qkv, options);
  const int64_t batch = qkv.size(0), time = qkv.size(1), width = qkv.size(2) / 3;
  const auto compute = [&]() -> std::vector<Tensor> {
    const Tensor x = qkv.value();
    const ops::Attention result =
        ops::attention(qkv_third(x, heads, 0), qkv_third(x, heads, 1), qkv_third(x, heads, 2), options, mask);
    return {result.out.transpose(1, 2).view({batch, time, width}), result.log_sum_exp};
  };
  return record(
      "self_attention", compute, {qkv}, saved(qkv, saved_output(0), saved_output(1), mask),
      [forward = ForwardContext(options), heads, width](Saved& s, const Incoming& dy,
                                                        const Wanted&) -> Gradients {
        RandomContextScope forward_context(forward.context);
        const auto split_heads = [&](const Tensor& t) {
          return t.view({t.size(0), t.size(1), heads, width / heads}).transpose(1, 2);
        };
        if (grad_mode()) {
          const Variable all = s[0];
          const Variable dout =
              transpose(reshape(dy[0], {dy[0].size(0), dy[0].size(1), heads, width / heads}), 1, 2);
          Gradients gradients =
              composed_backward(qkv_third(all, heads, 0), qkv_third(all, heads, 1), qkv_third(all, heads, 2),
                                dout, forward.options, s.tensor(3));
          std::vector<Variable> thirds;
          for (int i = 0; i < 3; ++i)
            thirds.push_back(reshape(transpose(gradients[i], 1, 2), {all.size(0), all.size(1), width}));
          return {cat(thirds, 2)};
        }
        const Tensor all = s.tensor(0), gradient = Tensor::empty_like(all);
        ops::attention_backward(qkv_third(all, heads, 0), qkv_third(all, heads, 1), qkv_third(all, heads, 2),
                                {split_heads(s.tensor(1)), s.tensor(2)},
                                split_heads(dy[0].value().contiguous()), forward.options,
                                qkv_third(gradient, heads, 0), qkv_third(gradient, heads, 1),
                                qkv_third(gradient, heads, 2), s.tensor(3));
        return {Variable(gradient)};
      })[0];
}

}  // namespace tessera
