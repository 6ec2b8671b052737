#include "nn/layers/attention/multihead_attention.h"

#include <limits>

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/grad_mode.h"
#include "autograd/views/sample_layout.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/random/random_context.h"

namespace tessera::nn {
namespace {

MultiheadAttentionOptions checked(MultiheadAttentionOptions o) {
  const char* where = "nn::MultiheadAttention";
  require<ConfigError>(o.embed_dim >= 1, where, ": expected embed_dim to be at least 1, got ", o.embed_dim);
  require<ConfigError>(o.num_heads >= 1 && o.embed_dim % o.num_heads == 0, where, ": ", o.num_heads,
                       " heads do not divide the width ", o.embed_dim);
  require<ConfigError>(o.num_kv_heads >= 0 && (o.num_kv_heads == 0 || o.num_heads % o.num_kv_heads == 0),
                       where, ": num_kv_heads ", o.num_kv_heads, " does not divide the ", o.num_heads,
                       " heads");
  require<ConfigError>(o.dropout >= 0 && o.dropout < 1, where, ": expected dropout in [0, 1), got ",
                       o.dropout);
  require<ConfigError>(o.kdim >= 0 && o.vdim >= 0, where, ": expected kdim and vdim of at least 0, got ",
                       o.kdim, " and ", o.vdim);
  require<ConfigError>(o.window.value_or(1) >= 1, where, ": expected a window of at least 1, got ",
                       o.window.value_or(1));
  require<ConfigError>(o.alibi_slopes.empty() || std::ssize(o.alibi_slopes) == o.num_heads, where,
                       ": expected a slope for each of the ", o.num_heads, " heads, got ",
                       o.alibi_slopes.size());
  if (o.kdim == 0) o.kdim = o.embed_dim;
  if (o.vdim == 0) o.vdim = o.embed_dim;
  return o;
}

/// What is added to the scaled products for a mask: itself, or minus infinity where a bool mask is true.
Variable as_added(const Variable& mask, DType dtype) {
  if (mask.dtype() != boolean) return mask;
  const Variable zeros(ops::zeros(mask.shape(), dtype, mask.device()));
  return masked_fill(zeros, mask.value(), -std::numeric_limits<double>::infinity());
}

/// Two masks in one, each of which hides what it hides alone; an undefined one hides nothing.
Variable merged(const Variable& a, const Variable& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (a.dtype() == boolean && b.dtype() == boolean) return Variable(ops::logical_or(a.value(), b.value()));
  const DType dtype = a.dtype() == boolean ? b.dtype() : a.dtype();
  return as_added(a, dtype) + as_added(b, dtype);
}

/// A mask whose last dimension is `count` longer, with keys that nothing hides.
Variable with_visible_keys(const Variable& mask, int64_t count) {
  if (!mask.defined() || count == 0) return mask;
  Shape shape = mask.shape();
  shape[shape.ndim() - 1] = count;
  return cat({mask, Variable(ops::zeros(shape, mask.dtype(), mask.device()))}, -1);
}

}  // namespace

MultiheadAttention::MultiheadAttention(Options options)
    : Layer(checked(std::move(options))),
      in_proj_weight(is_packed() ? &parameter("in_proj_weight", {o.embed_dim + 2 * kv_width(), o.embed_dim},
                                              init::xavier_uniform())
                                 : nullptr),
      q_proj_weight(is_packed()
                        ? nullptr
                        : &parameter("q_proj_weight", {o.embed_dim, o.embed_dim}, init::xavier_uniform())),
      k_proj_weight(is_packed() ? nullptr
                                : &parameter("k_proj_weight", {kv_width(), o.kdim}, init::xavier_uniform())),
      v_proj_weight(is_packed() ? nullptr
                                : &parameter("v_proj_weight", {kv_width(), o.vdim}, init::xavier_uniform())),
      in_proj_bias(o.bias ? &parameter("in_proj_bias", {o.embed_dim + 2 * kv_width()}, init::zeros())
                          : nullptr),
      bias_k(o.add_bias_kv ? &parameter("bias_k", {1, 1, kv_width()}, init::xavier_normal()) : nullptr),
      bias_v(o.add_bias_kv ? &parameter("bias_v", {1, 1, kv_width()}, init::xavier_normal()) : nullptr),
      out_proj(add<Linear>("out_proj", {.in = o.embed_dim,
                                        .out = o.embed_dim,
                                        .bias = o.bias,
                                        .weight_init = o.out_proj_init,
                                        .bias_init = init::zeros()})) {}

bool MultiheadAttention::is_packed() const {
  return o.kdim == o.embed_dim && o.vdim == o.embed_dim;
}

std::string MultiheadAttention::describe_options() const {
  return text(o.num_heads, " heads of ", o.embed_dim / o.num_heads,
              kv_heads() == o.num_heads ? "" : text(", ", kv_heads(), " of keys and values"));
}

AttentionOptions MultiheadAttention::attention_options(bool causal) const {
  AttentionOptions options{.causal = causal,
                           .enable_gqa = kv_heads() != o.num_heads,
                           .window = o.window,
                           .alibi_slopes = o.alibi_slopes};
  if (is_training() && o.dropout > 0) {
    options.dropout = o.dropout;
    options.key = next_random_key(full_name());
  }
  return options;
}

/// x as (B, T, features), from any of the three layouts.
Variable MultiheadAttention::batch_major(const Variable& x, int64_t features, const char* name) const {
  require<ShapeError>((x.ndim() == 3 || x.ndim() == 2) && x.size(-1) == features, "nn::MultiheadAttention '",
                      full_name(), "': expected a ", name, " of 2 or 3 dimensions, the last of ", features,
                      " features, got ", x);
  if (x.ndim() == 2) return unsqueeze(x, 0);
  if (o.batch_first) return x;
  const Variable rows = transpose(x, 0, 1);
  set_sample_layout(rows, samples_along(0));
  return rows;
}

Variable MultiheadAttention::split_heads(const Variable& x, int64_t heads) const {
  const Shape shape{x.size(0), x.size(1), heads, o.embed_dim / o.num_heads};
  return transpose(reshape(x, shape), 1, 2);
}

/// The projected keys or values (B, S, kv_width), and those that the options append.
Variable MultiheadAttention::with_extra_keys(const Variable& x, const Variable* bias) const {
  const Shape one{x.size(0), 1, x.size(2)};
  Variable all = x;
  if (bias) all = cat({all, expand(*bias, one)}, 1);
  if (o.add_zero_attn) all = cat({all, Variable(ops::zeros(one, x.dtype(), x.device()))}, 1);
  return all;
}

/// Both masks as one for `scaled_dot_product_attention`; undefined where there is none. `scores` is (B, H, L,
/// S), with the appended keys.
Variable MultiheadAttention::merged_mask(const MultiheadAttentionArguments& a, const Shape& scores) const {
  const int64_t batch = scores[0], heads = scores[1], queries = scores[2];
  const int64_t extra = (o.add_bias_kv ? 1 : 0) + (o.add_zero_attn ? 1 : 0), keys = scores[3] - extra;
  Variable padding, mask = a.attn_mask;
  if (a.key_padding_mask.defined()) {
    const Tensor& given = a.key_padding_mask;
    const bool fits = given.shape() == Shape{batch, keys} || (batch == 1 && given.shape() == Shape{keys});
    require<ShapeError>(fits, "nn::MultiheadAttention '", full_name(), "': expected a key_padding_mask (",
                        batch, ", ", keys, "), got ", describe(given));
    padding = with_visible_keys(Variable(given.view({batch, 1, 1, keys})), extra);
  }
  if (mask.defined()) {
    const bool per_head = mask.shape() == Shape{batch * heads, queries, keys};
    require<ShapeError>(per_head || mask.shape() == Shape{queries, keys}, "nn::MultiheadAttention '",
                        full_name(), "': expected an attn_mask (", queries, ", ", keys, ") or (",
                        batch * heads, ", ", queries, ", ", keys, "), got ", mask);
    if (per_head) mask = reshape(mask, {batch, heads, queries, keys});
    mask = with_visible_keys(mask, extra);
  }
  if (extra > 0 && a.is_causal) {  // appended keys are visible to every query: causality then is a mask
    const Tensor row = ops::arange(keys - queries, keys, 1, i64).unsqueeze(1);
    const Tensor later = ops::less(row, ops::arange(keys, i64)).to(out_proj.device());
    mask = merged(mask, with_visible_keys(Variable(later), extra));
  }
  mask = merged(mask, padding);
  return mask.defined() && mask.dtype() == boolean ? Variable(ops::logical_not(mask.value())) : mask;
}

/// From heads (B, H, T, D), those of keys and values with the appended ones.
MultiheadAttentionResult MultiheadAttention::attend(const Variable& q, const Variable& k, const Variable& v,
                                                    const MultiheadAttentionArguments& a) const {
  const bool extra = o.add_bias_kv || o.add_zero_attn;
  const AttentionOptions options = attention_options(a.is_causal && !extra);
  const Variable mask = merged_mask(a, {q.size(0), q.size(1), q.size(2), k.size(2)});
  MultiheadAttentionResult result{scaled_dot_product_attention(q, k, v, options, mask)};
  if (a.need_weights) {
    result.weights = attention_weights(q, k, options, mask);
    if (a.average_attn_weights) result.weights = mean(result.weights, {1});
  }
  result.output = reshape(transpose(result.output, 1, 2), {q.size(0), q.size(2), o.embed_dim});
  return result;
}

/// The projection of (B, L, E), in the layout of the inputs.
MultiheadAttentionResult MultiheadAttention::finish(const Variable& heads, const Variable& weights,
                                                    bool has_batch) const {
  MultiheadAttentionResult result{out_proj(heads), weights};
  if (!has_batch) {
    result.output = select(result.output, 0, 0);
    if (weights.defined()) result.weights = select(weights, 0, 0);
  } else if (!o.batch_first) {
    result.output = transpose(result.output, 0, 1);
  }
  return result;
}

MultiheadAttentionResult MultiheadAttention::forward(const Variable& query, const Variable& key,
                                                     const Variable& value,
                                                     const MultiheadAttentionArguments& arguments) const {
  const Variable q = batch_major(query, o.embed_dim, "query"), k = batch_major(key, o.kdim, "key"),
                 v = batch_major(value, o.vdim, "value");
  require<ShapeError>(k.size(0) == q.size(0) && v.size(0) == q.size(0) && v.size(1) == k.size(1),
                      "nn::MultiheadAttention '", full_name(), "': expected a key and a value of one length ",
                      "and of the query's batch, got ", query, ", ", key, " and ", value);
  std::vector<Variable> weights, biases(3);
  if (is_packed())
    weights = split(*in_proj_weight, {o.embed_dim, kv_width(), kv_width()});
  else
    weights = {*q_proj_weight, *k_proj_weight, *v_proj_weight};
  if (in_proj_bias) biases = split(*in_proj_bias, {o.embed_dim, kv_width(), kv_width()});
  const Variable keys = with_extra_keys(linear(k, weights[1], biases[1]), bias_k),
                 values = with_extra_keys(linear(v, weights[2], biases[2]), bias_v);
  const MultiheadAttentionResult result =
      attend(split_heads(linear(q, weights[0], biases[0]), o.num_heads), split_heads(keys, kv_heads()),
             split_heads(values, kv_heads()), arguments);
  return finish(result.output, result.weights, query.ndim() == 3);
}

MultiheadAttentionResult MultiheadAttention::forward(const Variable& x,
                                                     const MultiheadAttentionArguments& a) const {
  const bool apart =
      !is_packed() || o.add_bias_kv || o.add_zero_attn || a.need_weights || a.attn_mask.requires_grad();
  if (apart) return forward(x, x, x, a);
  const Variable rows = batch_major(x, o.embed_dim, "sequence");
  const Variable mask = merged_mask(a, {rows.size(0), o.num_heads, rows.size(1), rows.size(1)});
  const Variable qkv = linear(rows, *in_proj_weight, in_proj_bias ? *in_proj_bias : Variable());
  const Variable heads = self_attention(qkv, o.num_heads, attention_options(a.is_causal),
                                        mask.defined() ? mask.value() : Tensor(), kv_heads());
  return finish(heads, {}, x.ndim() == 3);
}

Variable MultiheadAttention::forward_cached(const Variable& x, KeyValueCache& cache,
                                            std::span<const int64_t> counts) const {
  require<AutogradError>(!grad_mode(), "nn::MultiheadAttention '", full_name(),
                         "': cached decoding records no gradients; run it under NoGrad");
  require<ConfigError>(is_packed() && !o.add_bias_kv && !o.add_zero_attn, "nn::MultiheadAttention '",
                       full_name(), "': cached decoding has neither kdim, vdim nor appended keys");
  const auto body = [&](const Variable& in) {
    require<ShapeError>(in.ndim() == 3 && in.size(2) == o.embed_dim, "nn::MultiheadAttention '", full_name(),
                        "': expected x (B, T, ", o.embed_dim, "), got ", in);
    const std::vector<Variable> qkv =
        split(linear(in, *in_proj_weight, in_proj_bias ? *in_proj_bias : Variable()),
              {o.embed_dim, kv_width(), kv_width()}, 2);
    const Variable heads =
        cache.attend(split_heads(qkv[0], o.num_heads).value(), split_heads(qkv[1], kv_heads()).value(),
                     split_heads(qkv[2], kv_heads()).value(),
                     {.window = o.window, .alibi_slopes = o.alibi_slopes}, counts);
    return out_proj(reshape(transpose(heads, 1, 2), {in.size(0), in.size(1), o.embed_dim}));
  };
  return call(body, x);
}

KeyValueCache MultiheadAttention::make_cache(int64_t batch, int64_t capacity) const {
  return KeyValueCache({.batch = batch,
                        .heads = kv_heads(),
                        .capacity = capacity,
                        .width = o.embed_dim / o.num_heads,
                        .dtype = out_proj.weight.dtype(),
                        .device = out_proj.device()});
}

}  // namespace tessera::nn
