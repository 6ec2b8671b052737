#include "tensor/ops/layers/loss.h"

#include <doctest/doctest.h>

#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/matmul.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;
using ops::CrossEntropyOptions;
using ops::LossReduction;

namespace {

struct Expected {
  std::vector<double> losses;
  double divisor = 0;
};

Expected by_formula(const Tensor& logits, const Tensor& targets, const Tensor& weight,
                    const CrossEntropyOptions& o) {
  Expected result;
  const int64_t n = logits.shape().back();
  const auto w = [&](int64_t k) { return weight.defined() ? element(weight, k) : 1.0; };
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const int64_t id = static_cast<int64_t>(element(targets, i));
    result.losses.push_back(0);
    if (id == o.ignore_index) continue;
    result.divisor += w(id);
    double largest = -1e300, sum = 0;
    for (int64_t k = 0; k < n; ++k) largest = std::max(largest, element(logits, i * n + k));
    for (int64_t k = 0; k < n; ++k) sum += std::exp(element(logits, i * n + k) - largest);
    const double lse = largest + std::log(sum);
    double loss = (1 - o.label_smoothing) * w(id) * (lse - element(logits, i * n + id));
    for (int64_t k = 0; k < n; ++k)
      loss += o.label_smoothing / static_cast<double>(n) * w(k) * (lse - element(logits, i * n + k));
    result.losses.back() = loss;
  }
  return result;
}

double reduced(const Expected& e, LossReduction reduction) {
  double sum = 0;
  for (double loss : e.losses) sum += loss;
  return reduction == LossReduction::mean ? sum / e.divisor : sum;
}

std::vector<CrossEntropyOptions> all_options() {
  std::vector<CrossEntropyOptions> list;
  for (int64_t ignored : {-100, 3})
    for (double smoothing : {0.0, 0.25})
      for (LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none})
        list.push_back({ignored, smoothing, reduction});
  return list;
}

}  // namespace

TEST_CASE("cross entropy: the formula with every option") {
  for (DType dtype : {f64, f32, bf16, f16})
    for (int64_t classes : {5, 65}) {
      const Tensor logits = filled({4, 3, classes}, dtype, scattered);
      const Tensor targets = filled({4, 3}, classes == 5 ? i64 : i32, [](int64_t i) { return i % 5; });
      const Tensor weight =
          filled({classes}, dtype, [](int64_t i) { return 0.25 * static_cast<double>(1 + i % 4); });
      const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 0x1p-10 : 0x1p-7;
      for (const Tensor& w : {Tensor(), weight})
        for (const CrossEntropyOptions& o : all_options()) {
          const Expected expected = by_formula(logits, targets, w, o);
          const Tensor loss = ops::cross_entropy(logits, targets, w, o).loss;
          CHECK(loss.dtype() == (dtype == f64 ? f64 : f32));
          if (o.reduction != LossReduction::none) {
            CHECK(loss.shape() == Shape{});
            CHECK(std::abs(loss.item() / reduced(expected, o.reduction) - 1) <= tolerance);
            continue;
          }
          REQUIRE(loss.shape() == targets.shape());
          for (int64_t i = 0; i < loss.numel(); ++i)
            CHECK(std::abs(element(loss, i) - expected.losses[static_cast<size_t>(i)]) <= 8 * tolerance);
        }
    }
}

TEST_CASE("cross entropy: the gradient matches finite differences of the loss") {
  const Tensor logits = filled({6, 7}, f64, scattered);
  const Tensor targets = filled({6}, i64, [](int64_t i) { return i % 5; });
  const Tensor weight = filled({7}, f64, [](int64_t i) { return 0.5 + 0.25 * static_cast<double>(i); });
  for (const Tensor& w : {Tensor(), weight})
    for (const CrossEntropyOptions& o : all_options()) {
      const auto forward = ops::cross_entropy(logits, targets, w, o);
      const Tensor dloss =
          filled(forward.loss.shape(), f64, [](int64_t i) { return 1.5 + static_cast<double>(i); });
      const Tensor gradient = ops::cross_entropy_backward(dloss, logits, targets, w, forward, o);
      const auto value = [&](const Tensor& x) {
        const auto losses = elements(ops::cross_entropy(x, targets, w, o).loss);
        double sum = 0;
        for (size_t i = 0; i < losses.size(); ++i) sum += losses[i] * (1.5 + static_cast<double>(i));
        return sum;
      };
      for (int64_t i = 0; i < logits.numel(); ++i) {
        const double h = 1e-5;
        Tensor up = logits.clone(), down = logits.clone();
        up.data<double>()[i] += h;
        down.data<double>()[i] -= h;
        CHECK(element(gradient, i) == doctest::Approx((value(up) - value(down)) / (2 * h)).epsilon(1e-6));
      }
    }
}

TEST_CASE("cross entropy: logits of any magnitude, ignored targets, threads, layout") {
  const Tensor huge = Tensor::from<float>({3e38f, -3e38f, 0, 1e38f, 1e38f, -1e38f}, {2, 3});
  CHECK(
      element(ops::cross_entropy(huge, Tensor::from<int64_t>({0, 1}), {}, {.reduction = LossReduction::none})
                  .loss,
              1) == doctest::Approx(std::log(2.0)));
  const Tensor ignored = Tensor::from<int64_t>({-100, -100});
  CHECK(std::isnan(ops::cross_entropy(huge, ignored).loss.item()));
  CHECK(ops::cross_entropy(huge, ignored, {}, {.reduction = LossReduction::sum}).loss.item() == 0);
  const Tensor logits = filled({500, 65}, f32, scattered);
  const Tensor targets = filled({500}, i64, [](int64_t i) { return i % 65; });
  CHECK(same_for_any_number_of_threads([&] { return ops::cross_entropy(logits, targets).loss; }));
  CHECK(same_for_any_number_of_threads([&] {
    return ops::cross_entropy_backward(Tensor::scalar(1.f), logits, targets, {},
                                       ops::cross_entropy(logits, targets), {});
  }));
  const Tensor strided = logits.transpose(0, 1).contiguous().transpose(0, 1);
  CHECK(same_bits(ops::cross_entropy(strided, targets).loss, ops::cross_entropy(logits, targets).loss));
}

TEST_CASE("cross entropy: an id outside the classes is named with its position and the limit") {
  const Tensor logits = Tensor::zeros({2, 2, 5}, f32);
  const Tensor targets = Tensor::from<int64_t>({0, 1, 5, 2}, {2, 2});
  try {
    ops::cross_entropy(logits, targets);
    FAIL("expected an IndexError");
  } catch (const IndexError& error) {
    const std::string message = error.what();
    CHECK(message.find("target 5") != std::string::npos);
    CHECK(message.find("(1, 0)") != std::string::npos);
    CHECK(message.find("from 0 to 4") != std::string::npos);
  }
  CHECK_THROWS_AS(ops::cross_entropy(logits, Tensor::zeros({2}, i64)), ShapeError);
  CHECK_THROWS_AS(ops::cross_entropy(logits, Tensor::zeros({2, 2}, f32)), DTypeError);
  CHECK_THROWS_AS(ops::cross_entropy(logits, Tensor::zeros({2, 2}, i64), Tensor::zeros({4}, f32)),
                  ShapeError);
  CHECK_THROWS_AS(ops::cross_entropy(logits, Tensor::zeros({2, 2}, i64), {}, {.label_smoothing = 1.5}),
                  ValueError);
  CHECK(ops::cross_entropy(logits.to(meta()), targets.to(meta())).loss.shape() == Shape{});
}

TEST_CASE("linear_cross_entropy: several chunks of rows give the loss and gradients of all rows at once") {
  constexpr int64_t rows = 600, width = 8, classes = 1100;  // chunks of 256 rows
  for (DType dtype : {f64, f32, bf16}) {
    CAPTURE(to_string(dtype));
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : 2e-2;
    const Tensor x = filled({rows, width}, dtype, scattered);
    const Tensor weight = filled({classes, width}, dtype, [](int64_t i) { return scattered(i + 99); });
    Tensor targets = Tensor::empty({rows}, i64);
    for (int64_t i = 0; i < rows; ++i) targets.data<int64_t>()[i] = i % 7 == 0 ? -100 : i * 37 % classes;
    const Tensor wide_x = ops::cast(x, f64), wide_weight = ops::cast(weight, f64);
    const Tensor logits = ops::linear(wide_x, wide_weight);
    const auto at_once = ops::cross_entropy(logits, targets);
    const Tensor dlogits = ops::cross_entropy_backward(Tensor::scalar(1.0), logits, targets, {}, at_once, {});
    const auto chunked = [&] {
      return ops::linear_cross_entropy(x, weight, {}, targets, {}, {}, {.x = true, .weight = true});
    };
    const auto got = chunked();
    CHECK(got.loss.dtype() == (dtype == f64 ? f64 : f32));
    CHECK(element(got.loss, 0) == doctest::Approx(element(at_once.loss, 0)).epsilon(1e-6));
    const Tensor dx = ops::matmul(dlogits, wide_weight), dw = ops::matmul(dlogits.transpose(0, 1), wide_x);
    const auto relative_difference = [](const Tensor& a, const Tensor& b) {
      double worst = 0, largest = 0;
      for (int64_t i = 0; i < a.numel(); ++i) {
        worst = std::max(worst, std::abs(element(a, i) - element(b, i)));
        largest = std::max(largest, std::abs(element(b, i)));
      }
      return worst / largest;
    };
    CHECK(relative_difference(got.x, dx) < tolerance);
    CHECK(relative_difference(got.weight, dw) < tolerance);
    CHECK(!got.bias.defined());
    CHECK(repeats_at_each_number_of_threads(
        [&] { return chunked().weight; },
        [&](const Tensor& dweight) { return relative_difference(dweight, dw) < tolerance; }));
    // Without gradients: the same loss.
    CHECK(same_bits(ops::linear_cross_entropy(x, weight, {}, targets, {}, {}).loss, got.loss));
  }
  const Tensor x = Tensor::zeros({2, 3}, f32), weight = Tensor::zeros({4, 3}, f32);
  CHECK_THROWS_WITH_AS(ops::linear_cross_entropy(x, weight, {}, Tensor::from<int64_t>({1, 4}), {}, {}),
                       doctest::Contains("target 4 at position (1,)"), IndexError);
  CHECK_THROWS_AS(ops::linear_cross_entropy(x, weight, {}, Tensor::from<int64_t>({1, 2, 3}), {}, {}),
                  ShapeError);
}
