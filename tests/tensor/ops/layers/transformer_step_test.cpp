#include "tensor/ops/layers/transformer_step.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tensor/cpu/isa.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using ops::TransformerStepWeights;

namespace {

using Row = std::vector<double>;

Tensor uneven(const Shape& shape, DType dtype, double first, double scale) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>(scale * std::sin(first + 1.37 * static_cast<double>(i)));
  return ops::cast(x, dtype);
}

TransformerStepWeights weights_of(int64_t width, int64_t wide, DType dtype, bool bias,
                                  Activation activation) {
  const auto matrix = [&](int64_t out, int64_t in, double first) {
    return uneven({out, in}, dtype, first, 0.3);
  };
  const auto vector = [&](int64_t n, double first) {
    return bias ? uneven({n}, dtype, first, 0.5) : Tensor();
  };
  return {uneven({width}, dtype, 0.2, 1),
          vector(width, 0.4),
          matrix(3 * width, width, 0.6),
          vector(3 * width, 0.8),
          matrix(width, width, 1),
          vector(width, 1.2),
          uneven({width}, dtype, 1.4, 1),
          vector(width, 1.6),
          matrix(wide, width, 1.8),
          vector(wide, 2),
          matrix(width, wide, 2.2),
          vector(width, 2.4),
          1e-5,
          activation};
}

/// The four linear weights as integers, and what these stand for.
struct Int8Weights {
  TransformerStepWeights stored, restored;

  explicit Int8Weights(const TransformerStepWeights& w) : stored(w), restored(w) {
    quantize(&TransformerStepWeights::qkv, &TransformerStepWeights::qkv_scales);
    quantize(&TransformerStepWeights::projection, &TransformerStepWeights::projection_scales);
    quantize(&TransformerStepWeights::widening, &TransformerStepWeights::widening_scales);
    quantize(&TransformerStepWeights::narrowing, &TransformerStepWeights::narrowing_scales);
  }

 private:
  using Field = Tensor TransformerStepWeights::*;
  void quantize(Field weight, Field scales) {
    const ops::QuantizedWeight q = ops::quantize_rows(stored.*weight);
    stored.*weight = q.values;
    stored.*scales = q.scales;
    restored.*weight = ops::dequantize_rows(q);
  }
};

double at(const Tensor& x, int64_t i) {
  return to_f64(x).data<double>()[i];
}

/// The block by its formulas, in f64.
struct PlainBlock {
  const TransformerStepWeights& w;
  int64_t width, heads;

  Row norm(const Row& x, const Tensor& weight, const Tensor& bias) const {
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / static_cast<double>(width);
    for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(width);
    Row y(x.size());
    const Tensor factors = to_f64(weight);
    for (int64_t i = 0; i < width; ++i)
      y[i] = (x[i] - mean) / std::sqrt(variance + w.epsilon) * factors.data<double>()[i] +
             (bias.defined() ? at(bias, i) : 0);
    return y;
  }
  static Row linear(const Row& x, const Tensor& weight, const Tensor& bias) {
    const Tensor matrix = to_f64(weight);
    Row y(static_cast<size_t>(weight.size(0)));
    for (int64_t j = 0; j < weight.size(0); ++j) {
      y[j] = bias.defined() ? at(bias, j) : 0;
      for (int64_t i = 0; i < weight.size(1); ++i)
        y[j] += x[i] * matrix.data<double>()[j * weight.size(1) + i];
    }
    return y;
  }
  double activation(double x) const {
    return w.activation == Activation::relu ? std::max(x, 0.0) : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  }
  /// For keys and values (H, capacity, D) f64, of which `length` positions are there.
  Row run(Row x, const Tensor& keys, const Tensor& values, int64_t length) const {
    const int64_t head = width / heads, capacity = keys.size(1);
    const Row qkv = linear(norm(x, w.norm_1, w.norm_1_bias), w.qkv, w.qkv_bias);
    Row attended(x.size());
    for (int64_t h = 0; h < heads; ++h) {
      double* const k = keys.data<double>() + h * capacity * head;
      double* const v = values.data<double>() + h * capacity * head;
      Row scores;
      double total = 0;
      for (int64_t d = 0; d < head; ++d) {
        k[length * head + d] = qkv[width + h * head + d];
        v[length * head + d] = qkv[2 * width + h * head + d];
      }
      for (int64_t t = 0; t <= length; ++t) {
        double score = 0;
        for (int64_t d = 0; d < head; ++d) score += qkv[h * head + d] * k[t * head + d];
        scores.push_back(std::exp(score / std::sqrt(static_cast<double>(head))));
        total += scores.back();
      }
      for (int64_t t = 0; t <= length; ++t)
        for (int64_t d = 0; d < head; ++d) attended[h * head + d] += scores[t] / total * v[t * head + d];
    }
    const Row first = linear(attended, w.projection, w.projection_bias);
    for (int64_t i = 0; i < width; ++i) x[i] += first[i];
    Row wide = linear(norm(x, w.norm_2, w.norm_2_bias), w.widening, w.widening_bias);
    for (double& value : wide) value = activation(value);
    const Row second = linear(wide, w.narrowing, w.narrowing_bias);
    for (int64_t i = 0; i < width; ++i) x[i] += second[i];
    return x;
  }
};

}  // namespace

TEST_CASE(
    "transformer step: the block's formulas, on each instruction set, f32, bf16 and int8, rows of any "
    "lengths") {
  using kernels::cpu::Isa;
  constexpr int64_t rows = 5, heads = 3, capacity = 20;
  struct Kind {
    DType dtype;
    bool is_int8;
  };
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    for (const auto& [dtype, is_int8] : {Kind{f32, false}, {bf16, false}, {f32, true}, {bf16, true}})
      for (const int64_t head : {16, 10}) {
        if (!kernels::cpu::isa_available(isa)) continue;
        CAPTURE(name(isa));
        CAPTURE(head);
        CAPTURE(is_int8);
        const kernels::cpu::IsaScope scope(isa);
        const int64_t width = heads * head, wide = 4 * width - 3;
        const bool bias = head == 16;
        const TransformerStepWeights plain =
            weights_of(width, wide, dtype, bias, bias ? Activation::gelu : Activation::relu);
        const Int8Weights int8(plain);
        const TransformerStepWeights &w = is_int8 ? int8.stored : plain,
                                     &exact = is_int8 ? int8.restored : plain;
        REQUIRE(ops::takes_transformer_step(w));
        const Tensor x = uneven({rows, width}, f32, 0.1, 2), before = x.clone();
        const Tensor keys = uneven({rows, heads, capacity, head}, dtype, 0.5, 1),
                     values = uneven({rows, heads, capacity, head}, dtype, 0.7, 1);
        const Tensor exact_keys = to_f64(keys), exact_values = to_f64(values);
        const std::vector<int64_t> lengths{0, 7, 19, 1, 12};
        ops::transformer_step(x, w, keys, values, lengths);
        for (int64_t r = 0; r < rows; ++r) {
          Row row(before.data<float>() + r * width, before.data<float>() + (r + 1) * width);
          row = PlainBlock{exact, width, heads}.run(row, exact_keys.select(0, r), exact_values.select(0, r),
                                                    lengths[static_cast<size_t>(r)]);
          // Keys and values of bf16 are rounded to 8 bits; sums of up to 190 terms in f32 else.
          const double bound = dtype == bf16 ? 0.1 : 2e-4;
          for (int64_t i = 0; i < width; ++i)
            CHECK(std::abs(x.data<float>()[r * width + i] - row[i]) <= bound);
        }
        CHECK(largest_difference(keys, exact_keys) <= (dtype == bf16 ? 0.05 : 2e-5));
        CHECK(largest_difference(values, exact_values) <= (dtype == bf16 ? 0.05 : 2e-5));
      }
}

TEST_CASE("transformer step: a row's bits depend neither on other rows nor on the number of threads") {
  const int before = num_threads();
  for (const DType dtype : {f32, bf16, u8}) {  // u8: weights of int8 beside others of f32
    constexpr int64_t rows = 19, heads = 4, head = 32, width = heads * head, capacity = 300;
    const bool is_int8 = dtype == u8;
    const DType own = is_int8 ? f32 : dtype;
    const TransformerStepWeights plain = weights_of(width, 4 * width, own, true, Activation::gelu),
                                 w = is_int8 ? Int8Weights(plain).stored : plain;
    const Tensor x = uneven({rows, width}, f32, 0.1, 2);
    const Tensor keys = uneven({rows, heads, capacity, head}, own, 0.5, 1),
                 values = uneven({rows, heads, capacity, head}, own, 0.7, 1);
    std::vector<int64_t> lengths;
    for (int64_t r = 0; r < rows; ++r) lengths.push_back(r * 15);
    const auto run = [&](int64_t first, int64_t count) {
      const Tensor y = x.narrow(0, first, count).clone();
      ops::transformer_step(
          y, w, keys.narrow(0, first, count).clone(), values.narrow(0, first, count).clone(),
          std::span(lengths).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
      return y;
    };
    set_num_threads(1);
    const Tensor all = run(0, rows);
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      CHECK(same_bits(run(0, rows), all));
      for (const int64_t count : {1, 2, 3, 5})
        CHECK(same_bits(run(rows - count, count), all.narrow(0, rows - count, count)));
    }
  }
  set_num_threads(before);
}

TEST_CASE("transformer step: what it refuses") {
  const TransformerStepWeights w = weights_of(8, 32, f32, true, Activation::gelu);
  const Tensor x = Tensor::zeros({2, 8}, f32), keys = Tensor::zeros({2, 2, 5, 4}, f32);
  const std::vector<int64_t> lengths{0, 4};
  ops::transformer_step(x, w, keys, keys.clone(), lengths);
  const auto refused = [&](const TransformerStepWeights& weights, const Tensor& k,
                           std::vector<int64_t> stored) {
    CHECK_THROWS_AS(ops::transformer_step(x, weights, k, k.clone(), stored), Error);
  };
  refused(w, keys, {0});
  refused(w, keys, {0, 5});
  refused(w, Tensor::zeros({2, 2, 5, 3}, f32), lengths);
  refused(w, ops::cast(keys, bf16), lengths);
  refused(weights_of(12, 48, f32, true, Activation::gelu), keys, lengths);
  TransformerStepWeights mixed = w;
  mixed.norm_2 = ops::cast(w.norm_2, bf16);
  CHECK_FALSE(ops::takes_transformer_step(mixed));
  refused(mixed, keys, lengths);
  CHECK_FALSE(ops::takes_transformer_step(weights_of(8, 32, f64, true, Activation::gelu)));
  mixed = w;
  mixed.qkv = uneven({8, 24}, f32, 0, 1).transpose(0, 1);
  CHECK_FALSE(ops::takes_transformer_step(mixed));
}

TEST_CASE("transformer step: errors name the weight or the scales, with both shapes") {
  const TransformerStepWeights w = weights_of(8, 32, f32, true, Activation::gelu);
  const TransformerStepWeights int8 = Int8Weights(w).stored;
  const Tensor x = Tensor::zeros({2, 8}, f32), keys = Tensor::zeros({2, 2, 5, 4}, f32);
  const std::vector<int64_t> lengths{0, 4};
  const auto refused = [&](const TransformerStepWeights& weights, const char* message, auto error) {
    CHECK_THROWS_WITH_AS(ops::transformer_step(x, weights, keys, keys.clone(), lengths),
                         doctest::Contains(message), decltype(error));
  };
  ops::transformer_step(x, int8, keys, keys.clone(), lengths);
  TransformerStepWeights bad = w;
  bad.narrowing = w.narrowing.narrow(1, 0, 31);
  refused(bad, "expected narrowing (8, 32) in a block of width 8, got (8, 31) f32 on cpu", ShapeError(""));
  bad = w;
  bad.qkv_bias = w.qkv_bias.narrow(0, 0, 8);
  refused(bad, "expected qkv_bias (24,) in a block of width 8, got (8,) f32 on cpu", ShapeError(""));
  using Field = Tensor TransformerStepWeights::*;
  struct Scales {
    const char* name;
    Field field;
    int64_t size;
  };
  for (const auto& [name, field, size] :
       {Scales{"qkv_scales", &TransformerStepWeights::qkv_scales, 24},
        {"projection_scales", &TransformerStepWeights::projection_scales, 8},
        {"widening_scales", &TransformerStepWeights::widening_scales, 32},
        {"narrowing_scales", &TransformerStepWeights::narrowing_scales, 8}}) {
    const std::string expected = text("expected ", name, " (", size, ",) in a block of width 8, got ");
    bad = int8;
    bad.*field = Tensor::zeros({size - 1}, f32);
    refused(bad, text(expected, "(", size - 1, ",) f32 on cpu").c_str(), ShapeError(""));
    bad.*field = Tensor();
    CHECK_FALSE(ops::takes_transformer_step(bad));
    refused(bad, text(expected, "an undefined tensor").c_str(), ShapeError(""));
    bad.*field = Tensor::zeros({size}, bf16);
    CHECK_FALSE(ops::takes_transformer_step(bad));
    refused(bad, "linear weights of u8 with scales of f32", DTypeError(""));
  }
  bad = int8;
  bad.qkv = w.qkv;
  refused(bad, "qkv (24, 8) f32 on cpu and qkv_scales (24,) f32 on cpu", DTypeError(""));
}
