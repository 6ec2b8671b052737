// cuDNN's stand-in: flash attention's graphs, forward and backward, against plain loops in double.
#include <algorithm>
#include <cmath>

#include "tests/cuda_sim/libraries/cudnn_graphs/attention.h"
#include "tests/cuda_sim/libraries/cudnn_graphs/memory.h"

using namespace cudnn_graphs;

namespace {

/// Plain loops. q, do (B, H, Q, D), k, v (B, G, K, D) with H / G heads of q for one of k.
struct Reference {
  const Attention& a;
  double scale;
  std::vector<double> weights, o, stats, dq, dk, dv;

  int64_t kv_heads() const { return a.kv_heads == 0 ? a.heads : a.kv_heads; }
  size_t q_at(int64_t head, int64_t i) const { return static_cast<size_t>((head * a.queries + i) * a.head); }
  size_t k_at(int64_t head, int64_t j) const {
    const int64_t batch = head / a.heads, group = head % a.heads / (a.heads / kv_heads());
    return static_cast<size_t>(((batch * kv_heads() + group) * a.keys + j) * a.head);
  }

  void forward(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
               const std::vector<double>& bias) {
    o.assign(q.size(), 0);
    for (int64_t head = 0; head < a.batch * a.heads; ++head)
      for (int64_t i = 0; i < a.queries; ++i) {
        std::vector<double> row(static_cast<size_t>(a.keys));
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < a.keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < a.head; ++d) score += q[q_at(head, i) + d] * k[k_at(head, j) + d];
          score *= scale;
          if (a.bias) score += bias[static_cast<size_t>((head % a.heads * a.queries + i) * a.keys + j)];
          row[j] = a.causal && j > i ? -INFINITY : score;
          top = std::fmax(top, row[j]);
        }
        for (double& value : row) sum += value = std::exp(value - top);
        stats.push_back(top + std::log(sum));
        for (int64_t j = 0; j < a.keys; ++j) {
          weights.push_back(row[j] / sum);
          for (int64_t d = 0; d < a.head; ++d) o[q_at(head, i) + d] += row[j] / sum * v[k_at(head, j) + d];
        }
      }
  }

  void backward(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                const std::vector<double>& d_o) {
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for (int64_t head = 0; head < a.batch * a.heads; ++head)
      for (int64_t i = 0; i < a.queries; ++i) {
        const double* p = weights.data() + (head * a.queries + i) * a.keys;
        double mean = 0;
        for (int64_t d = 0; d < a.head; ++d) mean += d_o[q_at(head, i) + d] * o[q_at(head, i) + d];
        for (int64_t j = 0; j < a.keys; ++j) {
          double dp = 0;
          for (int64_t d = 0; d < a.head; ++d) {
            dp += d_o[q_at(head, i) + d] * v[k_at(head, j) + d];
            dv[k_at(head, j) + d] += p[j] * d_o[q_at(head, i) + d];
          }
          const double ds = scale * p[j] * (dp - mean);
          for (int64_t d = 0; d < a.head; ++d) {
            dq[q_at(head, i) + d] += ds * k[k_at(head, j) + d];
            dk[k_at(head, j) + d] += ds * q[q_at(head, i) + d];
          }
        }
      }
  }
};

/// q, k and v of an attention, its bias and its scalars.
struct Operands {
  Sizes q_shape, k_shape;
  Memory q, k, v, bias;
  float scale = 0.125f, minus_infinity = -INFINITY, one = 1;

  explicit Operands(const Attention& a)
      : q_shape{a.batch, a.heads, a.queries, a.head},
        k_shape{a.batch, a.kv_heads == 0 ? a.heads : a.kv_heads, a.keys, a.head},
        q(q_shape, attention_strides(a, q_shape[1], a.queries, a.head), a.type),
        k(k_shape, attention_strides(a, k_shape[1], a.keys, a.head), a.type),
        v(k_shape, attention_strides(a, k_shape[1], a.keys, a.head), a.type),
        bias({1, a.heads, a.queries, a.keys}, a.type) {
    q.fill(1);
    k.fill(2);
    v.fill(3);
    bias.fill(4);
  }
  void bind(Bindings& bindings, const AttentionIds& ids) {
    bindings.add(ids.q, q);
    bindings.add(ids.k, k);
    bindings.add(ids.v, v);
    if (ids.bias != 0) bindings.add(ids.bias, bias);
    if (ids.scale != 0) bindings.add(ids.scale, &scale);
    if (ids.masked != 0) bindings.add(ids.masked, &minus_infinity);
    if (ids.one != 0) bindings.add(ids.one, &one);
  }
};

void check_forward(const Attention& a) {
  const Session session;
  Graph graph;
  const AttentionIds ids = attention_forward(graph, a);
  Operands operands(a);
  Memory o(operands.q_shape, a.type), stats({a.batch, a.heads, a.queries, 1});
  Attention plain = a;
  if (a.layout == AttentionLayout::qkv) plain.layout = AttentionLayout::bshd;
  Memory placed(operands.q_shape, attention_strides(plain, a.heads, a.queries, a.head), a.type);
  Bindings bindings;
  operands.bind(bindings, ids);
  bindings.add(ids.o, placed);
  bindings.add(ids.stats, stats);
  run_graph(session, graph, bindings);
  Reference reference{.a = a, .scale = operands.scale};
  reference.forward(operands.q.values, operands.k.values, operands.v.values, operands.bias.values);
  CHECK(worst_error(placed.read(), reference.o) < tolerance_of(a.type));
  CHECK(worst_error(stats.read(), reference.stats) < 1e-5);
  CHECK(device_check::none());
}

void check_backward(const Attention& a) {
  const Session session;
  Graph graph;
  const AttentionIds ids = attention_backward(graph, a);
  Operands operands(a);
  Reference reference{.a = a, .scale = operands.scale};
  reference.forward(operands.q.values, operands.k.values, operands.v.values, operands.bias.values);
  const Sizes row_shape{a.batch, a.heads, a.queries, 1};
  const Sizes q_strides = attention_strides(a, a.heads, a.queries, a.head),
              k_strides = attention_strides(a, a.heads, a.keys, a.head);
  Attention plain = a;
  if (a.layout == AttentionLayout::qkv) plain.layout = AttentionLayout::bshd;
  const Sizes o_strides = attention_strides(plain, a.heads, a.queries, a.head);
  Memory o(operands.q_shape, o_strides, a.type), d_o(operands.q_shape, o_strides, a.type), stats(row_shape);
  o.values = reference.o;
  o.write();
  d_o.fill(5);
  stats.values = reference.stats;
  stats.write();
  Memory row_sum(row_shape), dq_sum(operands.q_shape), dq(operands.q_shape, q_strides, a.type),
      dk(operands.k_shape, k_strides, a.type), dv(operands.k_shape, k_strides, a.type);
  Bindings bindings;
  operands.bind(bindings, ids);
  for (const auto& [id, memory] : {std::pair{ids.o, &o},
                                   {ids.d_o, &d_o},
                                   {ids.stats, &stats},
                                   {ids.row_sum, &row_sum},
                                   {ids.dq_sum, &dq_sum},
                                   {ids.dq, &dq},
                                   {ids.dk, &dk},
                                   {ids.dv, &dv}})
    bindings.add(id, *memory);
  run_graph(session, graph, bindings);
  reference.backward(operands.q.values, operands.k.values, operands.v.values, d_o.values);
  // The weights are rounded before each of the two products.
  const double tolerance = 3 * tolerance_of(a.type);
  CHECK(worst_error(dq.read(), reference.dq) < tolerance);
  CHECK(worst_error(dk.read(), reference.dk) < tolerance);
  CHECK(worst_error(dv.read(), reference.dv) < tolerance);
  CHECK(device_check::none());
}

Attention small(cudnnDataType_t type) {
  return {.batch = 2, .heads = 2, .queries = 9, .keys = 13, .head = 16, .type = type};
}

}  // namespace

TEST_CASE("attention forward agrees with plain loops") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF, CUDNN_DATA_FLOAT}) {
    Attention a = small(type);
    check_forward(a);
    a.causal = true;
    check_forward(a);
    a.bias = true;
    check_forward(a);
  }
  Attention a = small(CUDNN_DATA_BFLOAT16);
  a.heads = 6;
  a.kv_heads = 3;
  check_forward(a);
}

TEST_CASE("attention forward takes heads inside of the sequence, and rows with gaps") {
  for (const auto layout : {AttentionLayout::bshd, AttentionLayout::qkv}) {
    Attention a = small(CUDNN_DATA_BFLOAT16);
    a.layout = layout;
    a.causal = true;
    check_forward(a);
  }
  Attention a = small(CUDNN_DATA_HALF);
  a.row_padding = 8;
  check_forward(a);
}

TEST_CASE("attention backward agrees with plain loops") {
  for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF}) {
    Attention a = small(type);
    check_backward(a);
    a.causal = true;
    check_backward(a);
    a.bias = true;
    a.layout = AttentionLayout::bshd;
    check_backward(a);
    a.layout = AttentionLayout::qkv;
    check_backward(a);
  }
}

TEST_CASE("attention backward drops what the forward dropped") {
  // v = 1: o is the weights after dropout, so that dv = o^T do.
  const Attention a{.batch = 1, .heads = 2, .queries = 12, .keys = 16, .head = 16, .dropout = 0.25};
  const Session session;
  Operands operands(a);
  for (size_t i = 0; i < operands.v.values.size(); ++i) operands.v.values[i] = i / 16 % 16 == i % 16 ? 1 : 0;
  operands.v.write();
  Memory o(operands.q_shape, a.type), stats({1, 2, 12, 1}), seed({1, 1, 1, 1}, CUDNN_DATA_INT64),
      offset({1, 1, 1, 1}, CUDNN_DATA_INT64);
  seed.values = {1234};
  offset.values = {5};
  seed.write();
  offset.write();
  float keep_scale = 1 / 0.75f;
  const auto bind = [&](Bindings& bindings, const AttentionIds& ids) {
    operands.bind(bindings, ids);
    bindings.add(ids.o, o);
    bindings.add(ids.stats, stats);
    bindings.add(ids.seed, seed);
    bindings.add(ids.offset, offset);
    bindings.add(ids.keep_scale, &keep_scale);
  };
  Graph forward, backward;
  Bindings there, back;
  bind(there, attention_forward(forward, a));
  run_graph(session, forward, there);
  const std::vector<double> dropped = o.read();
  const auto zeros = std::count(dropped.begin(), dropped.end(), 0.0);
  CHECK(zeros > 60);  // about 96 of 384
  CHECK(zeros < 132);
  const AttentionIds ids = attention_backward(backward, a);
  bind(back, ids);
  Memory d_o(operands.q_shape, a.type), row_sum({1, 2, 12, 1}), dq_sum(operands.q_shape),
      dq(operands.q_shape, a.type), dk(operands.k_shape, a.type), dv(operands.k_shape, a.type);
  d_o.fill(5);
  for (const auto& [id, memory] : {std::pair{ids.d_o, &d_o},
                                   {ids.row_sum, &row_sum},
                                   {ids.dq_sum, &dq_sum},
                                   {ids.dq, &dq},
                                   {ids.dk, &dk},
                                   {ids.dv, &dv}})
    back.add(id, *memory);
  run_graph(session, backward, back);
  std::vector<double> expected(dv.values.size(), 0);
  for (size_t head = 0; head < 2; ++head)
    for (size_t i = 0; i < 12; ++i)
      for (size_t j = 0; j < 16; ++j)
        for (size_t d = 0; d < 16; ++d)
          expected[(head * 16 + j) * 16 + d] +=
              dropped[(head * 12 + i) * 16 + j] * d_o.values[(head * 12 + i) * 16 + d];
  CHECK(worst_error(dv.read(), expected) < 0.02);
  CHECK(device_check::none());
}

int main(int argc, char** argv) {
  return device_check::run(argc, argv);
}
