// Logits far from 0: the largest logit and the logarithm of the sum are separate values, so that a loss and
// its gradient depend on the differences between logits alone.
#include <doctest/doctest.h>

#include <cmath>

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/layers/attention.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/softmax.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

namespace {

/// 0, 1/128, 2/128, ... modulo 4, in mixed order: exact in f32 also when 2^16 is added.
Tensor small_logits(int64_t rows, int64_t classes, DType dtype) {
  const Tensor x = Tensor::empty({rows, classes}, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = static_cast<double>(i * 389 % 512) / 128;
  const Tensor result = Tensor::empty(x.shape(), dtype);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (dtype == f64) result.data<double>()[i] = x.data<double>()[i];
    if (dtype == f32) result.data<float>()[i] = static_cast<float>(x.data<double>()[i]);
  }
  return result;
}

}  // namespace

TEST_CASE("large logits: two equal logits of 1e7 have the loss log 2 and its gradient") {
  const Tensor logits = Tensor::from<float>({1e7f, 1e7f}, {1, 2}), target = Tensor::from<int64_t>({0});
  const auto forward = ops::cross_entropy(logits, target);
  CHECK(forward.loss.item() == doctest::Approx(std::log(2.0)).epsilon(1e-6));
  const Tensor gradient = ops::cross_entropy_backward(Tensor::scalar(1.0f), logits, target, {}, forward, {});
  CHECK(largest_difference(gradient, Tensor::from<float>({-0.5f, 0.5f}, {1, 2})) <= 1e-6);
  const Tensor two = Tensor::from<float>({1.0f, 1.0f}, {2, 1}), x = Tensor::from<float>({1e7f}, {1, 1});
  const auto fused =
      ops::linear_cross_entropy(x, two, {}, target, {}, {}, {.x = true, .weight = true, .bias = false});
  CHECK(fused.loss.item() == doctest::Approx(std::log(2.0)).epsilon(1e-6));
  CHECK(largest_difference(fused.x, Tensor::from<float>({0.0f}, {1, 1})) <= 1e-6);
  CHECK(largest_difference(fused.weight, Tensor::from<float>({-5e6f, 5e6f}, {2, 1})) <= 10);
}

TEST_CASE("large logits: an offset changes neither the losses nor the gradients, with every option") {
  const Tensor targets = Tensor::from<int64_t>({3, 0, -100, 6, 1});
  const Tensor weight = Tensor::from<float>({0.5f, 1.0f, 2.0f, 0.25f, 1.5f, 1.0f, 3.0f});
  for (float offset : {2e4f, -2e4f, 65536.0f})
    for (double smoothing : {0.0, 0.25})
      for (const Tensor& w : {Tensor(), weight})
        for (auto reduction : {ops::LossReduction::mean, ops::LossReduction::sum, ops::LossReduction::none}) {
          const ops::CrossEntropyOptions options{.label_smoothing = smoothing, .reduction = reduction};
          const Tensor near = small_logits(5, 7, f32), far = ops::add(near, offset);
          const auto expected = ops::cross_entropy(near, targets, w, options),
                     got = ops::cross_entropy(far, targets, w, options);
          CHECK(largest_difference(got.loss, expected.loss) <= 1e-5);
          const Tensor dloss = ops::add(ops::mul(expected.loss, 0.0), 1.0);
          CHECK(largest_difference(ops::cross_entropy_backward(dloss, far, targets, w, got, options),
                                   ops::cross_entropy_backward(dloss, near, targets, w, expected, options)) <=
                1e-6);
        }
}

TEST_CASE("large logits: a row's loss is that of log_softmax, to the bit") {
  for (double offset : {0.0, 2e4}) {
    const Tensor logits = ops::add(small_logits(5, 65, f32), offset);
    const Tensor targets = Tensor::from<int64_t>({3, 64, 0, 6, 31});
    const Tensor losses =
        ops::cross_entropy(logits, targets, {}, {.reduction = ops::LossReduction::none}).loss;
    const Tensor logs = ops::log_softmax(logits);
    for (int64_t i = 0; i < 5; ++i)
      CHECK(losses.data<float>()[i] == -logs.data<float>()[i * 65 + targets.data<int64_t>()[i]]);
  }
}

TEST_CASE("large products: attention's output and gradients follow from its weights") {
  for (DType dtype : {f64, f32, bf16, f16}) {
    CAPTURE(to_string(dtype));
    // Products of 2^24, in f64 of 2^52: equal for both keys, so each has the weight 1/2.
    const double side = dtype == f64 ? 0x1p26 : 0x1p12;
    const Tensor large = Tensor::empty({1, 1, 2, 1}, dtype), v = random_tensor({1, 1, 2, 1}, dtype, 3);
    const Tensor values = to_f64(v);
    for (int i = 0; i < 2; ++i) {
      if (dtype == f64) large.data<double>()[i] = side;
      if (dtype == f32) large.data<float>()[i] = static_cast<float>(side);
      if (dtype == bf16) large.data<bfloat16>()[i] = bfloat16(static_cast<float>(side));
      if (dtype == f16) large.data<float16>()[i] = float16(static_cast<float>(side));
    }
    const AttentionOptions options{.scale = 1.0};
    const auto forward = ops::attention(large, large, v, options);
    const double mean = (values.data<double>()[0] + values.data<double>()[1]) / 2;
    const Tensor ones = Tensor::empty(v.shape(), f64), dq = Tensor::empty(v.shape(), dtype),
                 dk = Tensor::empty(v.shape(), dtype), dv = Tensor::empty(v.shape(), dtype);
    for (int i = 0; i < 2; ++i) {
      ones.data<double>()[i] = 1.0;
      CHECK(to_f64(forward.out).data<double>()[i] == doctest::Approx(mean).epsilon(1e-2));
    }
    const Tensor dout = ops::add(ops::mul(v, 0.0), 1.0);
    ops::attention_backward(large, large, v, forward, dout, options, dq, dk, dv);
    CHECK(largest_difference(dv, ones) <= 1e-2);  // 1/2 from each of two queries
  }
}
