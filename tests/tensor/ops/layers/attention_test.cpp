#include "tensor/ops/layers/attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// Attention and its gradients in f64 by the definition, one query at a time.
struct Reference {
  Tensor out, log_sum_exp, dq, dk, dv;
};

double& at(const Tensor& x, int64_t b, int64_t h, int64_t t, int64_t d) {
  return x.data<double>()[((b * x.size(1) + h) * x.size(2) + t) * x.size(3) + d];
}

Reference reference(const Tensor& q_any, const Tensor& k_any, const Tensor& v_any, const Tensor& dout_any,
                    const AttentionOptions& options, const Tensor& factors) {
  const Tensor q = to_f64(q_any), k = to_f64(k_any), v = to_f64(v_any), dout = to_f64(dout_any);
  const int64_t queries = q.size(2), keys = k.size(2), width = q.size(3);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(width));
  Reference r{Tensor::zeros(q.shape(), f64), Tensor::zeros({q.size(0), q.size(1), queries}, f64),
              Tensor::zeros(q.shape(), f64), Tensor::zeros(k.shape(), f64), Tensor::zeros(v.shape(), f64)};
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t seen = options.causal ? i + 1 + keys - queries : keys;
        std::vector<double> p(seen), factor(seen, 1.0), dp(seen, 0.0);
        double sum = 0, dot = 0;
        for (int64_t j = 0; j < seen; ++j) {
          for (int64_t d = 0; d < width; ++d) p[j] += scale * at(q, b, h, i, d) * at(k, b, h, j, d);
          sum += std::exp(p[j]);
          if (factors.defined()) factor[j] = at(factors, b, h, i, j);
        }
        r.log_sum_exp.data<double>()[(b * q.size(1) + h) * queries + i] = std::log(sum);
        for (int64_t j = 0; j < seen; ++j) {
          p[j] = std::exp(p[j]) / sum;
          for (int64_t d = 0; d < width; ++d) {
            at(r.out, b, h, i, d) += p[j] * factor[j] * at(v, b, h, j, d);
            at(r.dv, b, h, j, d) += p[j] * factor[j] * at(dout, b, h, i, d);
            dp[j] += factor[j] * at(dout, b, h, i, d) * at(v, b, h, j, d);
          }
          dot += p[j] * dp[j];
        }
        for (int64_t j = 0; j < seen; ++j)
          for (int64_t d = 0; d < width; ++d) {
            const double slope = scale * p[j] * (dp[j] - dot);
            at(r.dq, b, h, i, d) += slope * at(k, b, h, j, d);
            at(r.dk, b, h, j, d) += slope * at(q, b, h, i, d);
          }
      }
  return r;
}

/// log(sum(exp)) from the two values that attention keeps.
Tensor joined(const Tensor& log_sum_exp) {
  return ops::add(to_f64(log_sum_exp.select(0, 0)), to_f64(log_sum_exp.select(0, 1)));
}

/// Heads as a projection computes them: (B, T, H, D) in memory, and every row the first half of a longer one.
Tensor heads(int64_t batch, int64_t count, int64_t time, int64_t width, DType dtype, uint64_t seed) {
  return random_tensor({batch, time, count, 2 * width}, dtype, seed).narrow(3, 0, width).transpose(1, 2);
}

struct Gradients {
  Tensor dq, dk, dv;
  explicit Gradients(const Tensor& q, const Tensor& k)
      : dq(Tensor::empty(q.shape(), q.dtype())),
        dk(Tensor::empty(k.shape(), q.dtype())),
        dv(Tensor::empty(k.shape(), q.dtype())) {}
};

/// Sums of at most a hundred products of values below 2, rounded at most at each of five stages.
double tolerance(DType dtype) {
  return dtype == f64 ? 1e-13 : dtype == f32 ? 1e-5 : dtype == f16 ? 16 * 0x1p-11 : 16 * 0x1p-8;
}

struct Case {
  int64_t batch, heads, queries, keys, width;
  bool causal;
  double scale, dropout;
};
const Case cases[] = {{1, 1, 1, 1, 1, true, 0, 0},
                      {2, 3, 5, 5, 4, true, 0, 0},
                      {2, 2, 64, 64, 32, true, 0, 0},
                      {1, 2, 70, 70, 8, true, 0.25, 0},
                      {1, 2, 3, 130, 8, true, 0, 0},
                      {1, 2, 130, 3, 8, false, 0, 0},
                      {2, 1, 33, 47, 16, false, 0, 0},
                      {2, 2, 19, 21, 4, true, 0, 0.3},
                      {3, 2, 65, 65, 8, true, 0, 0.5},
                      {2, 2, 68, 68, 8, true, 0, 0.3},
                      // Widths with a tail after whole vectors, and odd ones.
                      {1, 2, 37, 37, 20, true, 0, 0},
                      {1, 2, 21, 50, 33, false, 0, 0},
                      {1, 2, 40, 40, 40, true, 0, 0.3},
                      {1, 1, 18, 18, 65, true, 0, 0}};

}  // namespace

TEST_CASE("attention: forward and backward by the definition, for every dtype and backend") {
  for (MatmulBackend backend : {MatmulBackend::automatic, MatmulBackend::eigen})
    for (DType dtype : {f64, f32, bf16, f16})
      for (const Case& c : cases) {
        set_matmul_backend(backend);
        const Tensor q = heads(c.batch, c.heads, c.queries, c.width, dtype, 1),
                     k = heads(c.batch, c.heads, c.keys, c.width, dtype, 2),
                     v = heads(c.batch, c.heads, c.keys, c.width, dtype, 3),
                     dout = heads(c.batch, c.heads, c.queries, c.width, dtype, 4);
        const AttentionOptions options{.causal = c.causal, .scale = c.scale, .dropout = c.dropout, .key = 77};
        const Tensor factors =
            c.dropout > 0 ? ops::attention_dropout({c.batch, c.heads, c.queries, c.keys}, options, f64, cpu())
                          : Tensor();
        const Reference expected = reference(q, k, v, dout, options, factors);
        const ops::Attention result = ops::attention(q, k, v, options);
        const Gradients g(q, k);
        ops::attention_backward(q, k, v, result, dout, options, g.dq, g.dk, g.dv);
        CAPTURE(to_string(dtype));
        CAPTURE(c.queries);
        CAPTURE(c.keys);
        CAPTURE(c.width);
        const double bound = tolerance(dtype);
        CHECK(largest_difference(result.out, expected.out) <= bound);
        CHECK(largest_difference(joined(result.log_sum_exp), expected.log_sum_exp) <= bound);
        CHECK(largest_difference(g.dq, expected.dq) <= bound);
        CHECK(largest_difference(g.dk, expected.dk) <= bound);
        CHECK(largest_difference(g.dv, expected.dv) <= bound);
      }
  set_matmul_backend(MatmulBackend::automatic);
}

TEST_CASE("attention: the same bits in every run and on any number of threads") {
  const Tensor q = heads(2, 3, 70, 16, f32, 5), k = heads(2, 3, 70, 16, f32, 6),
               v = heads(2, 3, 70, 16, f32, 7);
  const AttentionOptions options{.causal = true, .dropout = 0.2, .key = 3};
  const int before = num_threads();
  Tensor first, first_dk;
  for (int threads : {1, 2, 3, 2}) {
    set_num_threads(threads);
    const ops::Attention result = ops::attention(q, k, v, options);
    const Gradients g(q, k);
    ops::attention_backward(q, k, v, result, v, options, g.dq, g.dk, g.dv);
    if (!first.defined()) {
      first = result.out;
      first_dk = g.dk;
    }
    CHECK(same_bits(result.out, first));
    CHECK(same_bits(g.dk, first_dk));
  }
  set_num_threads(before);
}

TEST_CASE("attention: decoding one position with the cache gives the output of the full sequence") {
  const Tensor q = heads(1, 2, 9, 8, f64, 8), k = heads(1, 2, 9, 8, f64, 9), v = heads(1, 2, 9, 8, f64, 10);
  const Tensor full = ops::attention(q, k, v, {.causal = true}).out;
  for (int64_t t = 0; t < 9; ++t) {
    const Tensor step =
        ops::attention(q.narrow(2, t, 1), k.narrow(2, 0, t + 1), v.narrow(2, 0, t + 1), {.causal = true}).out;
    CHECK(largest_difference(step, full.narrow(2, t, 1)) <= 1e-14);
  }
}

TEST_CASE("attention: dropout depends on the sample, not on its position in the batch") {
  const AttentionOptions options{.dropout = 0.5, .key = 9};
  const int64_t both[] = {4, 7}, second[] = {7};
  begin_random_step(1, 2, both);
  const Tensor factors = ops::attention_dropout({2, 3, 5, 6}, options, f64, cpu());
  begin_random_step(1, 2, second);
  CHECK(same_bits(ops::attention_dropout({1, 3, 5, 6}, options, f64, cpu()), factors.narrow(0, 1, 1)));
  begin_random_step(1337, 0, {});
  int64_t zeros = 0;
  for (int64_t i = 0; i < factors.numel(); ++i) {
    const double factor = factors.data<double>()[i];
    CHECK((factor == 0.0 || factor == 2.0));
    zeros += factor == 0.0;
  }
  // 180 draws of probability 1/2: within 5 standard deviations of 90.
  CHECK(std::abs(static_cast<double>(zeros) - 90) <= 34);
}

TEST_CASE("attention: meta gives shapes, and wrong arguments are refused") {
  const Tensor q = Tensor::empty({2, 3, 4, 8}, f32, meta()), k = Tensor::empty({2, 3, 6, 8}, f32, meta());
  const ops::Attention planned = ops::attention(q, k, k, {.causal = true});
  CHECK(planned.out.shape() == Shape{2, 3, 4, 8});
  CHECK(planned.log_sum_exp.shape() == Shape{2, 2, 3, 4});
  const Tensor x = Tensor::zeros({2, 3, 4, 8}, f32);
  CHECK_THROWS_AS(ops::attention(x, Tensor::zeros({2, 3, 4, 7}, f32), x, {}), ShapeError);
  CHECK_THROWS_AS(ops::attention(x, x, Tensor::zeros({2, 3, 5, 8}, f32), {}), ShapeError);
  CHECK_THROWS_AS(ops::attention(x, Tensor::zeros({2, 3, 4, 8}, f64), x, {}), DTypeError);
  CHECK_THROWS_AS(ops::attention(x, x, x, {.dropout = 1.0}), ValueError);
}

TEST_CASE("attention: masked keys have the same effect as missing ones, forward and backward") {
  const int64_t kept = 133, all = 150;
  const Tensor seen = Tensor::zeros({1, 1, 1, all}, boolean);
  const Tensor added = Tensor::zeros({1, 1, 1, all}, f32);
  for (int64_t j = 0; j < all; ++j) {
    seen.data<bool>()[j] = j < kept;
    added.data<float>()[j] = j < kept ? 0 : -HUGE_VALF;
  }
  for (DType dtype : {f64, f32, bf16, f16})
    for (const double dropout : {0.0, 0.25}) {
      const Tensor q = heads(2, 2, 21, 8, dtype, 1), k = heads(2, 2, all, 8, dtype, 2),
                   v = heads(2, 2, all, 8, dtype, 3), dout = heads(2, 2, 21, 8, dtype, 4);
      const AttentionOptions options{.dropout = dropout, .key = 5};
      // A row of the dropout mask is as long as the keys: the kept keys have the first factors of each row.
      const Tensor factors =
          dropout > 0
              ? ops::attention_dropout({2, 2, 21, all}, options, f64, cpu()).narrow(3, 0, kept).contiguous()
              : Tensor();
      const Reference expected =
          reference(q, k.narrow(2, 0, kept), v.narrow(2, 0, kept), dout, options, factors);
      for (const Tensor& mask : {seen, added}) {
        const ops::Attention result = ops::attention(q, k, v, options, mask);
        const Gradients g(q, k);
        ops::attention_backward(q, k, v, result, dout, options, g.dq, g.dk, g.dv, mask);
        CAPTURE(to_string(dtype));
        const double bound = tolerance(dtype);
        CHECK(largest_difference(result.out, expected.out) <= bound);
        CHECK(largest_difference(g.dq, expected.dq) <= bound);
        CHECK(largest_difference(g.dk.narrow(2, 0, kept), expected.dk) <= bound);
        CHECK(largest_difference(g.dv.narrow(2, 0, kept), expected.dv) <= bound);
        const Tensor zeros = Tensor::zeros({2, 2, all - kept, 8}, f64);
        CHECK(largest_difference(g.dk.narrow(2, kept, all - kept), zeros) == 0);
        CHECK(largest_difference(g.dv.narrow(2, kept, all - kept), zeros) == 0);
      }
    }
}

TEST_CASE("attention: a query with all keys masked has a zero output and a zero gradient") {
  const Tensor q = heads(1, 1, 3, 4, f32, 1), k = heads(1, 1, 5, 4, f32, 2), v = heads(1, 1, 5, 4, f32, 3);
  const Tensor mask = Tensor::zeros({3, 5}, boolean);
  for (int64_t j = 0; j < 5; ++j) mask.data<bool>()[j] = mask.data<bool>()[10 + j] = true;
  const ops::Attention result = ops::attention(q, k, v, {}, mask);
  const Gradients g(q, k);
  ops::attention_backward(q, k, v, result, v.narrow(2, 0, 3), {}, g.dq, g.dk, g.dv, mask);
  const Tensor zeros = Tensor::zeros({1, 1, 1, 4}, f64);
  CHECK(largest_difference(result.out.narrow(2, 1, 1), zeros) == 0);
  CHECK(largest_difference(g.dq.narrow(2, 1, 1), zeros) == 0);
  const Reference others = reference(q.narrow(2, 0, 1), k, v, v.narrow(2, 0, 1), {}, {});
  CHECK(largest_difference(result.out.narrow(2, 0, 1), others.out) <= 1e-6);
  // More queries than keys: causality masks all keys of the first queries, for either sign of the scale.
  for (const double scale : {0.5, -0.5}) {
    const AttentionOptions options{.causal = true, .scale = scale};
    const Tensor few_keys = k.narrow(2, 0, 2), few_values = v.narrow(2, 0, 2);
    const ops::Attention few = ops::attention(q, few_keys, few_values, options);
    const Gradients h(q, few_keys);
    ops::attention_backward(q, few_keys, few_values, few, q, options, h.dq, h.dk, h.dv);
    CHECK(largest_difference(few.out.narrow(2, 0, 1), zeros) == 0);
    CHECK(largest_difference(h.dq.narrow(2, 0, 1), zeros) == 0);
    const Reference rest = reference(q.narrow(2, 1, 2), few_keys, few_values, q.narrow(2, 1, 2), options, {});
    CHECK(largest_difference(few.out.narrow(2, 1, 2), rest.out) <= 1e-6);
    CHECK(largest_difference(h.dk, rest.dk) <= 1e-6);
  }
  CHECK_THROWS_AS(ops::attention(q, k, v, {}, Tensor::zeros({4, 5}, boolean)), ShapeError);
  CHECK_THROWS_AS(ops::attention(q, k, v, {}, Tensor::zeros({3, 5}, i64)), DTypeError);
}

TEST_CASE("attention: a negative scale gives the smallest product the largest weight, without overflow") {
  for (DType dtype : {f64, f32}) {
    const Tensor q = heads(1, 2, 9, 16, dtype, 1), k = heads(1, 2, 9, 16, dtype, 2),
                 v = heads(1, 2, 9, 16, dtype, 3);
    const AttentionOptions options{.causal = true, .scale = -20};
    const ops::Attention result = ops::attention(q, k, v, options);
    const Reference expected = reference(q, k, v, v, options, {});
    CHECK(largest_difference(result.out, expected.out) <= 1e-3);
    CHECK(largest_difference(joined(result.log_sum_exp), expected.log_sum_exp) <= 1e-3);
  }
}
