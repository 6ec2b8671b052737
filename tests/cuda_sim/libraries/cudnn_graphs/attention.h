// Attention as cuDNN's flash engines want it: matmul, pointwise and reduction operations in one graph.
// B batch, H heads, Q queries, K keys, D head size.
#pragma once

#include "tests/cuda_sim/libraries/cudnn_graphs/graph.h"

namespace cudnn_graphs {

enum class AttentionLayout {
  bhsd,  ///< heads outside of the sequence
  bshd,  ///< heads inside of the sequence
  qkv,   ///< q, k and v of a token side by side, heads inside of the sequence
};

struct Attention {
  int64_t batch = 2, heads = 4, queries = 128, keys = 128, head = 64;
  int64_t kv_heads = 0, value_head = 0;  ///< 0: those of q
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  bool causal = false, bias = false, stats = true;
  double dropout = 0;
  AttentionLayout layout = AttentionLayout::bhsd;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT, stats_type = CUDNN_DATA_FLOAT;
  int64_t row_padding = 0;  ///< elements between rows of D
  bool has_scale = true;
};

/// The tensors that the variant pack names.
struct AttentionIds {
  Id q, k, v, o, scale = 0, bias = 0, stats = 0, seed = 0, offset = 0, keep_scale = 0, masked = 0;
  Id d_o = 0, one = 0, row_sum = 0, dq_sum = 0, dq = 0, dk = 0, dv = 0;
};

/// Strides of a (B, H, S, D) tensor in memory.
inline Sizes attention_strides(const Attention& a, int64_t heads, int64_t length, int64_t head) {
  const int64_t row = head + a.row_padding;
  switch (a.layout) {
    case AttentionLayout::bhsd:
      return {heads * length * row, length * row, row, 1};
    case AttentionLayout::bshd:
      return {heads * length * row, row, heads * row, 1};
    default:
      return {3 * heads * length * row, row, 3 * heads * row, 1};
  }
}

inline Sizes transposed(Sizes sizes) {
  std::swap(sizes[2], sizes[3]);
  return sizes;
}

/// Scores below the diagonal stay, the others become -inf.
inline Id add_causal_mask(Graph& g, Id scores, const Sizes& shape, Id minus_infinity) {
  const Id row = g.intermediate(shape, CUDNN_DATA_INT32), column = g.intermediate(shape, CUDNN_DATA_INT32);
  const Id below = g.intermediate(shape, CUDNN_DATA_BOOLEAN), masked = g.intermediate(shape);
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, 0, row, {.axis = 2});
  g.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, 0, column, {.axis = 3});
  g.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, below, {.compute = CUDNN_DATA_BOOLEAN});
  g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scores, minus_infinity, masked, {.mask = below});
  return masked;
}

/// softmax(scale q k^T + bias) v, with the logarithm of the sums as statistics.
inline AttentionIds attention_forward(Graph& g, const Attention& a) {
  const int64_t kv_heads = a.kv_heads == 0 ? a.heads : a.kv_heads;
  const int64_t value_head = a.value_head == 0 ? a.head : a.value_head;
  const Sizes q_shape{a.batch, a.heads, a.queries, a.head}, k_shape{a.batch, kv_heads, a.keys, a.head};
  const Sizes v_shape{a.batch, kv_heads, a.keys, value_head},
      o_shape{a.batch, a.heads, a.queries, value_head};
  const Sizes shape{a.batch, a.heads, a.queries, a.keys}, row_shape{a.batch, a.heads, a.queries, 1};
  AttentionIds ids{};
  ids.q = g.tensor(q_shape, attention_strides(a, a.heads, a.queries, a.head), {.type = a.type});
  ids.k = g.tensor(transposed(k_shape), transposed(attention_strides(a, kv_heads, a.keys, a.head)),
                   {.type = a.type});
  ids.v = g.tensor(v_shape, attention_strides(a, kv_heads, a.keys, value_head), {.type = a.type});
  Attention plain = a;  // o is no part of a joint qkv tensor
  if (a.layout == AttentionLayout::qkv) plain.layout = AttentionLayout::bshd;
  ids.o = g.tensor(o_shape, attention_strides(plain, a.heads, a.queries, value_head), {.type = a.type});

  Id scores = g.intermediate(shape);
  g.matmul(ids.q, ids.k, scores, a.compute);
  if (a.has_scale) {
    const Id scaled = g.intermediate(shape);
    ids.scale = g.scalar(4);
    g.pointwise(CUDNN_POINTWISE_MUL, scores, ids.scale, scaled);
    scores = scaled;
  }
  if (a.bias) {
    const Id biased = g.intermediate(shape);
    ids.bias = g.tensor({1, a.heads, a.queries, a.keys}, a.type);
    g.pointwise(CUDNN_POINTWISE_ADD, scores, ids.bias, biased);
    scores = biased;
  }
  if (a.causal) {
    ids.masked = g.scalar(4);
    scores = add_causal_mask(g, scores, shape, ids.masked);
  }
  const Id top = g.intermediate(row_shape), shifted = g.intermediate(shape), exponent = g.intermediate(shape);
  const Id sum = g.intermediate(row_shape);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
  g.pointwise(CUDNN_POINTWISE_SUB, scores, top, shifted);
  g.pointwise(CUDNN_POINTWISE_EXP, shifted, 0, exponent);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponent, sum);
  {  // an intermediate tensor where they are not wanted
    const Id logarithm = g.intermediate(row_shape);
    ids.stats = a.stats ? g.tensor(row_shape, a.stats_type) : g.intermediate(row_shape, a.stats_type);
    g.pointwise(CUDNN_POINTWISE_LOG, sum, 0, logarithm);
    g.pointwise(CUDNN_POINTWISE_ADD, top, logarithm, ids.stats);
  }
  // The second product takes the type of v.
  Id weights = g.intermediate(shape, a.dropout > 0 ? CUDNN_DATA_FLOAT : a.type);
  g.pointwise(CUDNN_POINTWISE_DIV, exponent, sum, weights);
  if (a.dropout > 0) {
    const Id kept = g.intermediate(shape), masked = g.intermediate(shape);
    const Id scaled = g.intermediate(shape, a.type);
    ids.seed = g.tensor({1, 1, 1, 1}, CUDNN_DATA_INT64);
    ids.offset = g.tensor({1, 1, 1, 1}, CUDNN_DATA_INT64);
    ids.keep_scale = g.scalar(4);
    g.random_mask(kept, ids.seed, ids.offset, 1 - a.dropout);
    g.pointwise(CUDNN_POINTWISE_MUL, weights, kept, masked);
    g.pointwise(CUDNN_POINTWISE_MUL, masked, ids.keep_scale, scaled);
    weights = scaled;
  }
  g.matmul(weights, ids.v, ids.o, a.compute);
  return ids;
}

/// The gradients of q, k and v, from those of o and the forward's statistics. `row_sum` and `dq_sum` are
/// scratch memory that the graph names.
inline AttentionIds attention_backward(Graph& g, const Attention& a) {
  const Sizes q_shape{a.batch, a.heads, a.queries, a.head}, k_shape{a.batch, a.heads, a.keys, a.head};
  const Sizes shape{a.batch, a.heads, a.queries, a.keys}, row_shape{a.batch, a.heads, a.queries, 1};
  const Sizes turned{a.batch, a.heads, a.keys, a.queries};
  const Sizes turned_strides{a.heads * a.queries * a.keys, a.queries * a.keys, 1, a.keys};
  const Sizes q_strides = attention_strides(a, a.heads, a.queries, a.head);
  const Sizes k_strides = attention_strides(a, a.heads, a.keys, a.head);
  Attention plain = a;
  if (a.layout == AttentionLayout::qkv) plain.layout = AttentionLayout::bshd;
  const Sizes o_strides = attention_strides(plain, a.heads, a.queries, a.head);
  AttentionIds ids{};
  ids.q = g.tensor(q_shape, q_strides, {.type = a.type});
  ids.k = g.tensor(transposed(k_shape), transposed(k_strides), {.type = a.type});
  ids.v = g.tensor(transposed(k_shape), transposed(k_strides), {.type = a.type});
  ids.o = g.tensor(q_shape, o_strides, {.type = a.type});
  ids.d_o = g.tensor(q_shape, o_strides, {.type = a.type});
  ids.stats = g.tensor(row_shape, a.stats_type);
  ids.dq = g.tensor(q_shape, q_strides, {.type = a.type});
  ids.dk = g.tensor(k_shape, k_strides, {.type = a.type});
  ids.dv = g.tensor(k_shape, k_strides, {.type = a.type});

  // The sum of do * o over D.
  const Id product = g.tensor(q_shape, packed(q_shape), {.is_virtual = true}),
           sum = g.intermediate(row_shape);
  ids.one = g.scalar(4);
  ids.row_sum = g.tensor(row_shape);
  g.pointwise(CUDNN_POINTWISE_MUL, ids.d_o, ids.o, product);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, product, sum);
  g.pointwise(CUDNN_POINTWISE_MUL, sum, ids.one, ids.row_sum);

  // The weights again, and dv.
  Id scores = g.intermediate(shape);
  g.matmul(ids.q, ids.k, scores, a.compute);
  ids.scale = g.scalar(4);
  Id next = g.intermediate(shape);
  g.pointwise(CUDNN_POINTWISE_MUL, scores, ids.scale, next);
  scores = next;
  if (a.bias) {
    ids.bias = g.tensor({1, a.heads, a.queries, a.keys}, a.type);
    next = g.intermediate(shape);
    g.pointwise(CUDNN_POINTWISE_ADD, scores, ids.bias, next);
    scores = next;
  }
  next = g.intermediate(shape);
  g.pointwise(CUDNN_POINTWISE_SUB, scores, ids.stats, next);
  scores = next;
  if (a.causal) {
    ids.masked = g.scalar(4);
    scores = add_causal_mask(g, scores, shape, ids.masked);
  }
  const Id weights = g.intermediate(shape);
  g.pointwise(CUDNN_POINTWISE_EXP, scores, 0, weights);
  Id kept = 0, dropped = weights;
  if (a.dropout > 0) {
    kept = g.intermediate(shape);
    ids.seed = g.tensor({1, 1, 1, 1}, CUDNN_DATA_INT64);
    ids.offset = g.tensor({1, 1, 1, 1}, CUDNN_DATA_INT64);
    ids.keep_scale = g.scalar(4);
    g.random_mask(kept, ids.seed, ids.offset, 1 - a.dropout);
    const Id masked = g.intermediate(shape);
    dropped = g.intermediate(shape);
    g.pointwise(CUDNN_POINTWISE_MUL, weights, kept, masked);
    g.pointwise(CUDNN_POINTWISE_MUL, masked, ids.keep_scale, dropped);
  }
  const Id weights_turned = g.tensor(turned, turned_strides, {.type = a.type, .is_virtual = true});
  g.reshape(dropped, weights_turned);
  g.matmul(weights_turned, ids.d_o, ids.dv, a.compute);

  // ds = weights (do v^T - sum) scale, dk and dq.
  Id ds = g.intermediate(shape);
  g.matmul(ids.d_o, ids.v, ds, a.compute);
  const auto then = [&](cudnnPointwiseMode_t mode, Id other) {
    const Id y = g.intermediate(shape);
    g.pointwise(mode, ds, other, y);
    ds = y;
  };
  if (a.dropout > 0) then(CUDNN_POINTWISE_MUL, kept);
  then(CUDNN_POINTWISE_SUB, ids.row_sum);
  then(CUDNN_POINTWISE_MUL, weights);
  if (a.dropout > 0) then(CUDNN_POINTWISE_MUL, ids.keep_scale);
  const Id ds_scaled = g.intermediate(shape, a.type);
  g.pointwise(CUDNN_POINTWISE_MUL, ds, ids.scale, ds_scaled);
  const Id ds_turned = g.tensor(turned, turned_strides, {.type = a.type, .is_virtual = true});
  g.reshape(ds_scaled, ds_turned);
  g.matmul(ds_turned, ids.q, ids.dk, a.compute);
  const Id k_rows = g.tensor(k_shape, k_strides, {.type = a.type, .is_virtual = true});
  g.reshape(ids.k, k_rows);
  ids.dq_sum = g.tensor(q_shape);
  g.matmul(ds_scaled, k_rows, ids.dq_sum, a.compute);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, ids.dq_sum, 0, ids.dq);
  return ids;
}

}  // namespace cudnn_graphs
