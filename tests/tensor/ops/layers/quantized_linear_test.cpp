#include "tensor/ops/layers/quantized_linear.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tensor/cpu/isa.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/matmul.h"
#include "tests/tensor/test_values.h"

using namespace tessera;
using ops::QuantizedWeight;

namespace {

int8_t integer(const QuantizedWeight& w, int64_t j, int64_t p) {
  return static_cast<const int8_t*>(w.values.raw_data())[j * w.values.size(1) + p];
}

Tensor wave(const Shape& shape, DType dtype) {
  const Tensor x = Tensor::empty(shape, f32);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto at = static_cast<double>(i);
    x.data<float>()[i] = static_cast<float>(std::sin(1.37 * at) * std::exp(std::fmod(at, 40.0) - 20));
  }
  return ops::cast(x, dtype);
}

}  // namespace

TEST_CASE("quantize_rows: the nearest integers, no further than half a scale, on each instruction set") {
  using kernels::cpu::Isa;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (!kernels::cpu::isa_available(isa)) continue;
    const kernels::cpu::IsaScope scope(isa);
    for (const DType dtype : {f32, bf16}) {
      const Tensor w = wave({37, 51}, dtype), exact = to_f64(w);
      const QuantizedWeight q = ops::quantize_rows(w);
      CHECK(q.values.dtype() == u8);
      const Tensor wide = to_f64(ops::dequantize_rows(q)), half = to_f64(ops::dequantize_rows(q, bf16));
      for (int64_t j = 0; j < 37; ++j) {
        const double s = q.scales.data<float>()[j];
        double largest = 0;
        int most = 0;
        for (int64_t p = 0; p < 51; ++p) {
          const double value = exact.data<double>()[j * 51 + p], restored = s * integer(q, j, p);
          CHECK(std::abs(value - restored) <= s / 2 * (1 + 127 * 0x1p-22));  // of dividing in f32
          CHECK(wide.data<double>()[j * 51 + p] == static_cast<float>(restored));
          CHECK(half.data<double>()[j * 51 + p] ==
                static_cast<float>(bfloat16(static_cast<float>(restored))));
          largest = std::max(largest, std::abs(value));
          most = std::max(most, std::abs(static_cast<int>(integer(q, j, p))));
        }
        CHECK(s == static_cast<float>(largest) / 127.0f);
        CHECK(most == 127);
      }
    }
  }
}

TEST_CASE("quantize_rows: halves to even, rows of zeros, the largest and the smallest values") {
  const float most = std::numeric_limits<float>::max(), least = 0x1p-126f;
  const Tensor w = Tensor::from({127.0f, 0.5f,   1.5f,  -2.5f,        -127.0f,  //
                                 0.0f,   0.0f,   -0.0f, 0.0f,         0.0f,     //
                                 most,   -most,  0.0f,  0.75f * most, 1.0f,     //
                                 least,  -least, 0.0f,  0.0f,         0.0f},
                                {4, 5});
  const QuantizedWeight q = ops::quantize_rows(w);
  const int8_t expected[4][5] = {{127, 0, 2, -2, -127}, {}, {127, -127, 0, 95, 0}, {}};
  for (int64_t j = 0; j < 4; ++j)
    for (int64_t p = 0; p < 5; ++p) CHECK(integer(q, j, p) == expected[j][p]);
  CHECK(q.scales.data<float>()[0] == 1);
  CHECK(q.scales.data<float>()[1] == 0);
  CHECK(q.scales.data<float>()[3] == 0);  // a scale below the smallest normal value
  CHECK(same_bits(
      ops::quantized_linear(Tensor::from({1.0f, 1.0f, 1.0f, 1.0f, 1.0f}, {1, 5}), q).narrow(1, 0, 2),
      Tensor::from({1.0f - 1, 0.0f}, {1, 2})));
}

TEST_CASE("quantized_linear: leading dimensions, strides, nothing to multiply") {
  const QuantizedWeight w = ops::quantize_rows(random_tensor({6, 8}, f32, 1));
  const Tensor x = random_tensor({2, 3, 10}, f32, 2).narrow(2, 1, 8), y = ops::quantized_linear(x, w);
  CHECK(y.shape() == Shape{2, 3, 6});
  CHECK(same_bits(y.view({6, 6}), ops::quantized_linear(x.contiguous().view({6, 8}), w)));
  CHECK(ops::quantized_linear(random_tensor({8}, f32, 2), w).shape() == Shape{6});
  CHECK(ops::quantized_linear(Tensor::empty({0, 8}, f32), w).shape() == Shape{0, 6});
  const Tensor bias = random_tensor({6}, f32, 3);
  const QuantizedWeight empty = ops::quantize_rows(Tensor::empty({6, 0}, f32));
  CHECK(same_bits(ops::quantized_linear(Tensor::empty({1, 0}, f32), empty, bias), bias.view({1, 6})));
}

TEST_CASE("quantized_linear_out: sums of bf16 operands in f32, for rows in place and for many") {
  const QuantizedWeight w = ops::quantize_rows(random_tensor({70, 24}, f32, 1));
  for (const int64_t rows : {1, 16, 17, 100}) {
    const Tensor x = random_tensor({rows, 24}, bf16, 2), y = Tensor::empty({rows, 70}, f32);
    const uint64_t version = y.version();
    ops::quantized_linear_out(y, x, w);
    CHECK(y.version() > version);
    CHECK(same_bits(ops::cast(y, bf16), ops::quantized_linear(x, w)));
    const Tensor exact = ops::linear(to_f64(x), to_f64(ops::dequantize_rows(w, rows > 16 ? bf16 : f32)));
    CHECK(largest_difference(y, exact) <= 1e-5);  // sums of 24 terms of f32
  }
  const Tensor x = random_tensor({2, 24}, f32, 2);
  CHECK_THROWS_AS(ops::quantized_linear_out(Tensor::empty({2, 69}, f32), x, w), ShapeError);
  CHECK_THROWS_AS(ops::quantized_linear_out(Tensor::empty({70, 2}, f32).transpose(0, 1), x, w), ShapeError);
  CHECK_THROWS_AS(ops::quantized_linear_out(Tensor::empty({2, 70}, bf16), x, w), DTypeError);
  const QuantizedWeight square = ops::quantize_rows(random_tensor({24, 24}, f32, 1));
  CHECK_THROWS_AS(ops::quantized_linear_out(x, x, square), ValueError);
}

TEST_CASE("quantized_linear_cross_entropy: logits of f32, never all at once") {
  constexpr int64_t rows = 600, width = 24, classes = 1100;  // chunks of 256 rows
  const QuantizedWeight w = ops::quantize_rows(random_tensor({classes, width}, f32, 1));
  const Tensor targets = Tensor::empty({rows}, i64);
  for (int64_t i = 0; i < rows; ++i) targets.data<int64_t>()[i] = i % 7 == 0 ? -100 : i * 37 % classes;
  for (const DType dtype : {f32, bf16})
    for (const bool has_bias : {false, true})
      for (const auto reduction : {ops::LossReduction::mean, ops::LossReduction::sum}) {
        const ops::CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
        const Tensor x = random_tensor({rows, width}, dtype, 2),
                     bias = has_bias ? random_tensor({classes}, dtype, 3) : Tensor();
        const Tensor logits = ops::linear(to_f64(x), to_f64(ops::dequantize_rows(w, dtype)),
                                          has_bias ? to_f64(bias) : Tensor());
        const double exact = ops::cross_entropy(logits, targets, {}, options).loss.item();
        const auto account = make_intrusive<MemoryAccount>();
        const AccountScope scope(account);
        const Tensor loss = ops::quantized_linear_cross_entropy(x, w, bias, targets, options);
        CHECK(loss.dtype() == f32);
        // Logits of bf16 would be off by 2^-9 of themselves.
        CHECK(loss.item() == doctest::Approx(exact).epsilon(1e-6));
        CHECK(account->total().peak < rows * classes * 4 / 2);
      }
  const Tensor x = random_tensor({2, width}, f32, 2), ids = Tensor::from<int64_t>({1, classes});
  const auto refused = [&](const Tensor& in, const Tensor& bias, const Tensor& t,
                           const ops::CrossEntropyOptions& options) {
    ops::quantized_linear_cross_entropy(in, w, bias, t, options);
  };
  CHECK_THROWS_WITH_AS(refused(x, {}, ids, {}), doctest::Contains("target 1100 at position (1,)"),
                       IndexError);
  CHECK_THROWS_AS(refused(x, {}, Tensor::from<int64_t>({1, 2, 3}), {}), ShapeError);
  CHECK_THROWS_AS(refused(x, {}, ids, {.reduction = ops::LossReduction::none}), ValueError);
  CHECK_THROWS_AS(refused(x, random_tensor({5}, f32, 3), ids, {}), ShapeError);
  CHECK_THROWS_AS(refused(x.narrow(1, 0, 5), {}, ids, {}), ShapeError);
  CHECK_THROWS_AS(refused(Tensor(), {}, ids, {}), ValueError);
  CHECK(std::isnan(
      ops::quantized_linear_cross_entropy(Tensor::empty({0, width}, bf16), w, {}, Tensor::empty({0}, i64), {})
          .item()));
}

TEST_CASE("quantized_linear: what is refused, and what the message says") {
  const Tensor good = random_tensor({6, 8}, f32, 1), x = random_tensor({2, 8}, f32, 2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()})
    for (const DType dtype : {f32, bf16}) {
      const Tensor w = good.clone();
      w.data<float>()[4 * 8 + 3] = bad;
      CHECK_THROWS_WITH_AS(ops::quantize_rows(ops::cast(w, dtype)),
                           doctest::Contains("NaN or an infinity in row 4"), ValueError);
    }
  CHECK_THROWS_AS(ops::quantize_rows(random_tensor({8}, f32, 1)), ShapeError);
  CHECK_THROWS_WITH_AS(ops::quantize_rows(to_f64(good)), doctest::Contains("expected f32 or bf16, got f64"),
                       DTypeError);
  const QuantizedWeight w = ops::quantize_rows(good);
  CHECK_THROWS_WITH_AS(ops::quantized_linear(random_tensor({2, 7}, f32, 2), w),
                       doctest::Contains("expected x (..., 8)"), ShapeError);
  CHECK_THROWS_AS(ops::quantized_linear(random_tensor({2, 8}, f16, 2), w), DTypeError);
  CHECK_THROWS_AS(ops::quantized_linear(x, w, random_tensor({5}, f32, 3)), ShapeError);
  CHECK_THROWS_AS(ops::quantized_linear(x, w, random_tensor({6}, bf16, 3)), DTypeError);
  CHECK_THROWS_AS(ops::quantized_linear(x, {good, w.scales}), DTypeError);
  CHECK_THROWS_AS(ops::quantized_linear(x, {w.values, w.scales.narrow(0, 0, 5)}), ShapeError);
  CHECK_THROWS_AS(ops::quantized_linear(x, {w.values, Tensor()}), ValueError);
  CHECK_THROWS_AS(ops::dequantize_rows(w, f64), DTypeError);
  CHECK_THROWS_AS(ops::quantized_linear(Tensor::empty({2, 8}, f32, meta()), w), DeviceError);
}
