#include "tensor/ops/images/batch_norm.h"

#include <doctest/doctest.h>

#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

/// The mean and variance of channel c of x (N, C, ...), by two plain loops.
std::pair<double, double> moments(const Tensor& x, int64_t c) {
  const int64_t channels = x.shape()[1], length = x.numel() / (x.shape()[0] * channels);
  double sum = 0, squares = 0, count = 0;
  const auto each = [&](const auto& visit) {
    for (int64_t i = 0; i < x.numel(); ++i)
      if (i / length % channels == c) visit(element(x, i));
  };
  each([&](double value) { sum += value, ++count; });
  each([&](double value) { squares += (value - sum / count) * (value - sum / count); });
  return {sum / count, squares / count};
}

}  // namespace

TEST_CASE("batch norm: statistics and results by plain loops, for segments of every length") {
  for (const Shape& shape :
       {Shape{33, 5}, Shape{6, 17, 3}, Shape{3, 2, 40}, Shape{2, 3, 70, 61}, Shape{9, 1}})
    for (const DType dtype : {f64, f32, bf16, f16}) {
      CAPTURE(shape);
      CAPTURE(dtype);
      const Tensor x = filled(shape, dtype, [](int64_t i) { return scattered(i) + 3; });
      const ops::BatchNormed out = ops::batch_norm(x, {}, {}, {.epsilon = 0.01});
      const double tolerance = dtype == f64 ? 1e-12 : 1e-5, stored = dtype == f64   ? 1e-12
                                                                     : dtype == f32 ? 1e-5
                                                                     : dtype == f16 ? 2e-3
                                                                                    : 1.6e-2;
      const int64_t length = x.numel() / (shape[0] * shape[1]);
      for (int64_t c = 0; c < shape[1]; ++c) {
        const auto [mean, variance] = moments(x, c);
        CHECK(std::abs(element(out.mean, c) - mean) < tolerance);
        CHECK(std::abs(element(out.variance, c) - variance) < 10 * tolerance);
      }
      for (int64_t i = 0; i < x.numel(); i += 7) {
        const int64_t c = i / length % shape[1];
        const double y = (element(x, i) - element(out.mean, c)) * element(out.rstd, c);
        CHECK(std::abs(element(out.y, i) - y) <= stored);
      }
    }
}

TEST_CASE("batch norm: no number of threads changes a bit, and relu's backward reads no saved sign") {
  for (const Shape& shape : {Shape{64, 50}, Shape{8, 37, 9, 11}}) {
    const Tensor x = filled(shape, f32, scattered),
                 dy = filled(shape, f32, [](int64_t i) { return scattered(5 * i); });
    const Tensor weight =
        filled({shape[1]}, f32, [](int64_t i) { return 0.5 + 0.1 * static_cast<double>(i % 7); });
    const Tensor bias =
        filled({shape[1]}, f32, [](int64_t i) { return 0.2 * static_cast<double>(i % 3) - 0.2; });
    CHECK(same_for_any_number_of_threads([&] { return ops::batch_norm(x, weight, bias).y; }));
    const ops::BatchNormed out = ops::batch_norm(x, weight, bias, {.relu = true});
    const auto gradients = [&](const Tensor& gradient, bool relu) {
      return ops::batch_norm_backward(gradient, x, weight, bias, out.mean, out.rstd, {.relu = relu});
    };
    CHECK(same_for_any_number_of_threads([&] { return gradients(dy, true).x; }));
    CHECK(same_for_any_number_of_threads([&] { return gradients(dy, true).weight; }));
    const Tensor passed =
        filled(shape, f32, [&](int64_t i) { return element(out.y, i) > 0 ? element(dy, i) : 0; });
    CHECK(same_bits(gradients(dy, true).x, gradients(passed, false).x));
    CHECK(same_bits(gradients(dy, true).bias, gradients(passed, false).bias));
  }
}

TEST_CASE("batch norm: the sums of two halves give the gradient of the whole") {
  const Tensor x = filled({6, 3, 4}, f64, scattered),
               dy = filled({6, 3, 4}, f64, [](int64_t i) { return scattered(9 * i); });
  const Tensor weight = filled({3}, f64, [](int64_t i) { return 1 + 0.5 * static_cast<double>(i); });
  const ops::BatchNormed out = ops::batch_norm(x, weight, {});
  const ops::BatchNormGradients whole = ops::batch_norm_backward(dy, x, weight, {}, out.mean, out.rstd);
  const Tensor half_x = x.narrow(0, 4, 2).contiguous(), half_dy = dy.narrow(0, 4, 2).contiguous();
  const Tensor part = ops::batch_norm_input_backward(half_dy, half_x, weight, {}, out.mean, out.rstd,
                                                     whole.bias, whole.weight, 24);
  for (int64_t i = 0; i < part.numel(); ++i)
    CHECK(element(part, i) == doctest::Approx(element(whole.x, 48 + i)));
}

TEST_CASE("batch norm: operands that do not fit are errors that say what was expected") {
  const Tensor x = Tensor::zeros({4, 3, 2});
  CHECK_THROWS_WITH_AS(ops::batch_norm(Tensor::zeros({1, 3}), {}, {}),
                       doctest::Contains("more than 1 value per channel"), ValueError);
  CHECK_THROWS_WITH_AS(ops::batch_norm(Tensor::zeros({4}), {}, {}), doctest::Contains("x (N, C, ...)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::batch_norm(x, Tensor::zeros({4}), {}), doctest::Contains("weight of shape (3,)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(ops::batch_norm(x, {}, Tensor::zeros({3}, f64)),
                       doctest::Contains("bias of dtype f32"), DTypeError);
  CHECK_THROWS_AS(ops::batch_norm(Tensor::zeros({4, 3}, i64), {}, {}), DTypeError);
  CHECK_THROWS_WITH_AS(ops::batch_norm_apply(x, Tensor::zeros({2}), Tensor::zeros({3}), {}, {}),
                       doctest::Contains("mean of shape (3,)"), ShapeError);
}
