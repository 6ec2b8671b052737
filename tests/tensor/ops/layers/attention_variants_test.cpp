// Attention with grouped heads, windows, ALiBi and first positions, against plain loops.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tensor/cpu/gemm/tiles/tile_registers.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/profile/cost.h"
#include "tensor/threads/parallel.h"
#include "tests/support/error_text.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

double& at(const Tensor& x, int64_t b, int64_t h, int64_t t, int64_t d) {
  return x.data<double>()[((b * x.size(1) + h) * x.size(2) + t) * x.size(3) + d];
}

struct Gradients {
  Tensor dq, dk, dv;
};

struct Reference {
  Tensor out;
  Gradients gradients;
};

/// Whether query i of row b sees key j, by the options alone.
bool is_visible(const AttentionOptions& o, int64_t position, int64_t j) {
  if (o.causal && j > position) return false;
  return !o.window || std::abs(position - j) < *o.window;
}

/// By the definition in f64, one query at a time. `mask` (B, T_k) bool, or undefined.
Reference reference(const Tensor& q_any, const Tensor& k_any, const Tensor& v_any, const Tensor& dout_any,
                    const AttentionOptions& o, const Tensor& factors, const Tensor& mask) {
  const Tensor q = to_f64(q_any), k = to_f64(k_any), v = to_f64(v_any), dout = to_f64(dout_any);
  const int64_t keys = k.size(2), width = q.size(3), group = q.size(1) / k.size(1);
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(width));
  Reference r{Tensor::zeros(q.shape(), f64),
              {Tensor::zeros(q.shape(), f64), Tensor::zeros(k.shape(), f64), Tensor::zeros(k.shape(), f64)}};
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < q.size(2); ++i) {
        const int64_t shared = h / group,
                      position = i + (o.first_positions.empty() ? keys - q.size(2) : o.first_positions[b]);
        std::vector<int64_t> seen;
        for (int64_t j = 0; j < keys; ++j)
          if (is_visible(o, position, j) && (!mask.defined() || mask.data<bool>()[b * keys + j]))
            seen.push_back(j);
        if (seen.empty()) continue;
        std::vector<double> p, dp, factor;
        double largest = -INFINITY, total = 0, dot = 0;
        for (const int64_t j : seen) {
          double s = 0;
          for (int64_t d = 0; d < width; ++d) s += scale * at(q, b, h, i, d) * at(k, b, shared, j, d);
          if (!o.alibi_slopes.empty()) s -= o.alibi_slopes[h] * static_cast<double>(std::abs(position - j));
          p.push_back(s);
          largest = std::max(largest, s);
          factor.push_back(factors.defined() ? at(factors, b, h, i, j) : 1.0);
        }
        for (double& s : p) total += s = std::exp(s - largest);
        for (size_t n = 0; n < seen.size(); ++n) {
          p[n] /= total;
          dp.push_back(0);
          for (int64_t d = 0; d < width; ++d) {
            at(r.out, b, h, i, d) += p[n] * factor[n] * at(v, b, shared, seen[n], d);
            at(r.gradients.dv, b, shared, seen[n], d) += p[n] * factor[n] * at(dout, b, h, i, d);
            dp[n] += factor[n] * at(dout, b, h, i, d) * at(v, b, shared, seen[n], d);
          }
          dot += p[n] * dp[n];
        }
        for (size_t n = 0; n < seen.size(); ++n)
          for (int64_t d = 0; d < width; ++d) {
            const double slope = scale * p[n] * (dp[n] - dot);
            at(r.gradients.dq, b, h, i, d) += slope * at(k, b, shared, seen[n], d);
            at(r.gradients.dk, b, shared, seen[n], d) += slope * at(q, b, h, i, d);
          }
      }
  return r;
}

Tensor heads(int64_t batch, int64_t count, int64_t time, int64_t width, DType dtype, uint64_t seed) {
  return random_tensor({batch, time, count, 2 * width}, dtype, seed).narrow(3, 0, width).transpose(1, 2);
}

/// Sums of at most a thousand products of values below 2, rounded at most at each of five stages.
double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 2e-5 : dtype == f16 ? 32 * 0x1p-11 : 32 * 0x1p-8;
}

Gradients backward(const Tensor& q, const Tensor& k, const Tensor& v, const ops::Attention& forward,
                   const Tensor& dout, const AttentionOptions& options, const Tensor& mask = {}) {
  const Gradients g{Tensor::empty(q.shape(), q.dtype()), Tensor::empty(k.shape(), q.dtype()),
                    Tensor::empty(k.shape(), q.dtype())};
  ops::attention_backward(q, k, v, forward, dout, options, g.dq, g.dk, g.dv, mask);
  return g;
}

struct Case {
  int64_t batch, heads, shared, queries, keys, width;
  AttentionOptions options;
  bool padding = false;
};

std::vector<Case> cases() {
  const std::vector<double> slopes{0.5, 0.125, 0.03125, 0.25};
  return {
      {2, 4, 2, 70, 70, 8, {.causal = true, .enable_gqa = true}},
      {1, 4, 1, 33, 130, 16, {.enable_gqa = true}},
      {2, 4, 1, 150, 150, 8, {.causal = true, .dropout = 0.25, .key = 5, .enable_gqa = true}},
      {1, 2, 2, 300, 300, 8, {.causal = true, .window = 1}},
      {1, 2, 2, 300, 300, 8, {.causal = true, .window = 70}},
      {1, 2, 2, 300, 300, 8, {.window = 37}},
      {1, 2, 2, 200, 290, 4, {.dropout = 0.25, .key = 5, .window = 21}},
      {1, 2, 2, 90, 20, 4, {.window = 5}},
      {2, 4, 4, 65, 65, 8, {.causal = true, .alibi_slopes = slopes}},
      {1, 4, 2, 40, 140, 8, {.scale = -0.7, .enable_gqa = true, .window = 50, .alibi_slopes = slopes}},
      {1, 2, 2, 260, 260, 8, {.causal = true, .scale = -3, .window = 45}},
      {3, 4, 2, 9, 200, 8, {.causal = true, .enable_gqa = true, .first_positions = {191, 0, 77}}},
      {3,
       4,
       2,
       9,
       200,
       8,
       {.causal = true, .enable_gqa = true, .window = 40, .first_positions = {150, 3, 77}}},
      {2, 4, 2, 40, 300, 8, {.enable_gqa = true}, true},
      // More keys than the forward takes at a time; the nearest ones weigh the most, or the first are hidden.
      {1, 2, 1, 40, 2200, 8, {.causal = true, .enable_gqa = true}},
      {1, 2, 2, 20, 4200, 4, {.dropout = 0.25, .key = 5}},
      {1, 2, 2, 33, 2150, 8, {.causal = true, .alibi_slopes = {0.5, 0.125}}},
      {2, 2, 2, 40, 2150, 8, {.scale = -0.7}, true},
      {1, 2, 2, 70, 2300, 8, {.window = 2100}},
      {2, 4, 4, 300, 300, 8, {.causal = true, .window = 60, .alibi_slopes = slopes}, true},
  };
}

/// Row b sees keys 40 b + 1 .. T - 33 (b + 1), with a hole.
Tensor padding_of(const Case& c) {
  const Tensor mask = Tensor::zeros({c.batch, c.keys}, boolean);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t j = 40 * b + 1; j < c.keys - 33 * (b + 1); ++j)
      mask.data<bool>()[b * c.keys + j] = j % 17 != 3;
  return mask;
}

}  // namespace

TEST_CASE("attention variants: forward and backward by the definition, for every dtype") {
  for (DType dtype : {f64, f32, bf16, f16})
    for (const Case& c : cases()) {
      const Tensor q = heads(c.batch, c.heads, c.queries, c.width, dtype, 1),
                   k = heads(c.batch, c.shared, c.keys, c.width, dtype, 2),
                   v = heads(c.batch, c.shared, c.keys, c.width, dtype, 3),
                   dout = heads(c.batch, c.heads, c.queries, c.width, dtype, 4);
      const Tensor factors =
          c.options.dropout > 0
              ? ops::attention_dropout({c.batch, c.heads, c.queries, c.keys}, c.options, f64, cpu())
              : Tensor();
      const Tensor padding = c.padding ? padding_of(c) : Tensor();
      const Tensor mask = c.padding ? padding.view({c.batch, 1, 1, c.keys}) : Tensor();
      const Reference expected = reference(q, k, v, dout, c.options, factors, padding);
      const ops::Attention result = ops::attention(q, k, v, c.options, mask);
      const Gradients g = backward(q, k, v, result, dout, c.options, mask);
      CAPTURE(to_string(dtype));
      CAPTURE(c.queries);
      CAPTURE(c.keys);
      CAPTURE(c.options.window.value_or(0));
      const double bound = tolerance(dtype);
      CHECK(largest_difference(result.out, expected.out) <= bound);
      CHECK(largest_difference(g.dq, expected.gradients.dq) <= bound);
      CHECK(largest_difference(g.dk, expected.gradients.dk) <= bound * c.heads / c.shared);
      CHECK(largest_difference(g.dv, expected.gradients.dv) <= bound * c.heads / c.shared);
    }
}

TEST_CASE("attention variants: the same bits on any number of threads") {
  const int before = num_threads();
  std::vector<Case> all = cases();
  // Enough work for 60 threads, and few heads: threads share blocks of keys.
  all.push_back({1, 2, 2, 520, 520, 16, {.causal = true}});
  all.push_back({1, 4, 2, 300, 520, 16, {.enable_gqa = true}, true});
  all.push_back({2, 2, 1, 400, 400, 16, {.causal = true, .dropout = 0.3, .key = 9, .enable_gqa = true}});
  for (const DType dtype : {f32, bf16, f64})
    for (const Case& c : all) {
      const Tensor q = heads(c.batch, c.heads, c.queries, c.width, dtype, 1),
                   k = heads(c.batch, c.shared, c.keys, c.width, dtype, 2),
                   v = heads(c.batch, c.shared, c.keys, c.width, dtype, 3);
      const Tensor mask = c.padding ? padding_of(c).view({c.batch, 1, 1, c.keys}) : Tensor();
      ops::Attention first;
      Gradients first_gradients;
      for (const int threads : {1, 2, 3, 5, 13, 60}) {
        set_num_threads(threads);
        const ops::Attention result = ops::attention(q, k, v, c.options, mask);
        const Gradients g = backward(q, k, v, result, q, c.options, mask);
        if (threads == 1) {
          first = result;
          first_gradients = g;
        }
        INFO(to_string(dtype), ", queries ", c.queries, ", keys ", c.keys, ", threads ", threads);
        CHECK(same_bits(result.out, first.out));
        CHECK(same_bits(result.log_sum_exp, first.log_sum_exp));
        CHECK(same_bits(g.dq, first_gradients.dq));
        CHECK(same_bits(g.dk, first_gradients.dk));
        CHECK(same_bits(g.dv, first_gradients.dv));
      }
    }
  set_num_threads(before);
}

TEST_CASE(
    "attention variants: bf16 on the model of the tiles, by the definition and on any number of threads") {
  const kernels::cpu::TileModelScope model;
  const int before = num_threads();
  for (const Case& c : cases()) {
    const Tensor q = heads(c.batch, c.heads, c.queries, c.width, bf16, 1),
                 k = heads(c.batch, c.shared, c.keys, c.width, bf16, 2),
                 v = heads(c.batch, c.shared, c.keys, c.width, bf16, 3),
                 dout = heads(c.batch, c.heads, c.queries, c.width, bf16, 4);
    const Tensor factors =
        c.options.dropout > 0
            ? ops::attention_dropout({c.batch, c.heads, c.queries, c.keys}, c.options, f64, cpu())
            : Tensor();
    const Tensor padding = c.padding ? padding_of(c) : Tensor();
    const Tensor mask = c.padding ? padding.view({c.batch, 1, 1, c.keys}) : Tensor();
    const Reference expected = reference(q, k, v, dout, c.options, factors, padding);
    set_num_threads(1);
    const ops::Attention result = ops::attention(q, k, v, c.options, mask);
    const Gradients g = backward(q, k, v, result, dout, c.options, mask);
    INFO("queries ", c.queries, ", keys ", c.keys);
    const double bound = tolerance(bf16);
    CHECK(largest_difference(result.out, expected.out) <= bound);
    CHECK(largest_difference(g.dq, expected.gradients.dq) <= bound);
    CHECK(largest_difference(g.dk, expected.gradients.dk) <= bound * c.heads / c.shared);
    CHECK(largest_difference(g.dv, expected.gradients.dv) <= bound * c.heads / c.shared);
    set_num_threads(5);
    const Gradients on_five =
        backward(q, k, v, ops::attention(q, k, v, c.options, mask), dout, c.options, mask);
    CHECK(same_bits(g.dq, on_five.dq));
    CHECK(same_bits(g.dk, on_five.dk));
    CHECK(same_bits(g.dv, on_five.dv));
  }
  set_num_threads(before);
}

TEST_CASE("attention variants: blocks of keys whose gradients of queries do not fit at once") {
  const int before = num_threads();
  const AttentionOptions options{.causal = true, .window = 20};
  const Tensor q = heads(1, 2, 12000, 64, f32, 1), k = heads(1, 2, 12000, 64, f32, 2),
               v = heads(1, 2, 12000, 64, f32, 3);
  const ops::Attention result = ops::attention(q, k, v, options);
  set_num_threads(1);
  const Gradients one = backward(q, k, v, result, q, options, {});
  set_num_threads(3);
  const Gradients three = backward(q, k, v, result, q, options, {});
  set_num_threads(before);
  CHECK(same_bits(one.dq, three.dq));
  CHECK(same_bits(one.dk, three.dk));
  CHECK(same_bits(one.dv, three.dv));
}

TEST_CASE("attention variants: keys outside the window are left out of all products") {
  const int64_t time = 512, window = 16;
  const AttentionOptions options{.causal = true, .window = window};
  const Tensor q = heads(1, 1, 64, 8, f32, 1), k = heads(1, 1, time, 8, f32, 2),
               v = heads(1, 1, time, 8, f32, 3);
  const ops::Attention expected = ops::attention(q, k, v, options);
  const Gradients expected_g = backward(q, k, v, expected, q, options);
  // The queries are the last 64: nothing reads the first 384 keys, three blocks of the backward.
  for (const Tensor& x : {k, v})
    for (int64_t j = 0; j < 384; ++j)
      for (int64_t d = 0; d < 8; ++d)
        x.data<float>()[j * x.strides()[2] + d] = std::numeric_limits<float>::quiet_NaN();
  const ops::Attention result = ops::attention(q, k, v, options);
  const Gradients g = backward(q, k, v, result, q, options);
  CHECK(same_bits(result.out, expected.out));
  CHECK(same_bits(g.dq, expected_g.dq));
  CHECK(same_bits(g.dk, expected_g.dk));
  // The count of operations: 4 D per visible pair.
  Cost cost;
  {
    const CostScope scope(cost);
    ops::attention(heads(1, 1, time, 8, f32, 1), k, v, options);
  }
  CHECK(cost.flops == 4 * 8 * (window * time - window * (window - 1) / 2));
}

TEST_CASE("attention variants: ALiBi's slopes are the paper's") {
  CHECK(alibi_slopes(8) ==
        std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625});
  const std::vector<double> twelve = alibi_slopes(12);
  CHECK(twelve.size() == 12);
  CHECK(twelve[7] == 0.00390625);
  CHECK(twelve[8] == doctest::Approx(std::exp2(-0.5)));
  CHECK(twelve[11] == doctest::Approx(std::exp2(-3.5)));
  CHECK(alibi_slopes(1) == std::vector<double>{0.00390625});
  CHECK_THROWS_AS(alibi_slopes(0), ValueError);
}

TEST_CASE("attention variants: a window of any number of positions hides nothing else") {
  const Tensor x = random_tensor({1, 2, 5, 4}, f32, 1);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (const bool causal : {false, true}) {
    const Tensor all = ops::attention(x, x, x, {.causal = causal}).out;
    CHECK(same_bits(ops::attention(x, x, x, {.causal = causal, .window = largest}).out, all));
  }
}

TEST_CASE("attention variants: options that do not fit are refused") {
  const Tensor q = Tensor::zeros({2, 4, 3, 8}), k = Tensor::zeros({2, 2, 3, 8}),
               odd = Tensor::zeros({2, 3, 3, 8});
  const auto refused = [&](AttentionOptions options) {
    options.enable_gqa = true;
    return message_of<ValueError>([&] { ops::attention(q, k, k, options); });
  };
  CHECK(refused({.window = 0}) == "attention: expected a window of at least 1, got 0");
  CHECK(refused({.alibi_slopes = {1, 2}}) ==
        "attention: expected a slope for each of the 4 heads of q, got 2");
  CHECK(refused({.first_positions = {1}}) ==
        "attention: expected a first position for each of the 2 rows of q, got 1");
  CHECK(contains(refused({.first_positions = {1, -1}}), "expected first positions from 0 to "));
  const int64_t largest = std::numeric_limits<int64_t>::max();
  CHECK(contains(refused({.first_positions = {1, largest}}), ", got 9223372036854775807"));
  CHECK_THROWS_AS(ops::attention(q, odd, odd, {.enable_gqa = true}), ShapeError);
  CHECK_THROWS_AS(ops::attention(q, k, k, {}), ShapeError);
}
