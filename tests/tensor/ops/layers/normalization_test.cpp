#include "tensor/ops/layers/normalization.h"

#include <doctest/doctest.h>

#include "tensor/cpu/isa.h"
#include "tensor/ops/elementwise/binary.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

struct Problem {
  Tensor x, weight, bias, dy;
  int64_t n;
};

Problem problem(const Shape& shape, DType dtype) {
  const Shape normalized{shape.back()};
  return {filled(shape, dtype, scattered),
          filled(normalized, dtype, [](int64_t i) { return 1 + scattered(i + 7) / 8; }),
          filled(normalized, dtype, [](int64_t i) { return scattered(i + 31); }),
          filled(shape, dtype, [](int64_t i) { return scattered(i + 1000); }), shape.back()};
}

/// Checks against the formulas of the header, computed in f64 from the values that the kernel reads.
void check(const Problem& p, bool centered, bool with_weight, bool with_bias) {
  const double tolerance = p.x.dtype() == f64   ? 1e-13
                           : p.x.dtype() == f32 ? 4e-6
                           : p.x.dtype() == f16 ? 3e-3
                                                : 2e-2;
  const double eps = 1e-5, n = static_cast<double>(p.n);
  const Tensor weight = with_weight ? p.weight : Tensor(), bias = with_bias ? p.bias : Tensor();
  const ops::Normalized got =
      centered ? ops::layer_norm(p.x, weight, bias, eps) : ops::rms_norm(p.x, weight, eps);
  const auto gradients = ops::normalization_backward(p.dy, p.x, weight, got.mean, got.rstd, 1,
                                                     {.x = true, .weight = with_weight, .bias = with_bias});
  const int64_t rows = p.x.numel() / p.n;
  std::vector<double> dweight(static_cast<size_t>(p.n)), dbias(static_cast<size_t>(p.n));
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, squares = 0, mean_g = 0, mean_gh = 0;
    const auto x = [&](int64_t i) { return element(p.x, r * p.n + i); };
    const auto dy = [&](int64_t i) { return element(p.dy, r * p.n + i); };
    const auto w = [&](int64_t i) { return with_weight ? element(p.weight, i) : 1.0; };
    for (int64_t i = 0; i < p.n; ++i) mean += x(i) / n;
    if (!centered) mean = 0;
    for (int64_t i = 0; i < p.n; ++i) squares += (x(i) - mean) * (x(i) - mean);
    const double rstd = 1 / std::sqrt(squares / n + eps);
    CHECK(element(got.rstd, r) == doctest::Approx(rstd).epsilon(1e-5));
    for (int64_t i = 0; i < p.n; ++i) {
      const double h = (x(i) - mean) * rstd;
      mean_g += centered ? dy(i) * w(i) / n : 0;
      mean_gh += dy(i) * w(i) * h / n;
      dweight[static_cast<size_t>(i)] += dy(i) * h;
      dbias[static_cast<size_t>(i)] += dy(i);
    }
    for (int64_t i = 0; i < p.n; ++i) {
      const double h = (x(i) - mean) * rstd;
      const double y = h * w(i) + (with_bias ? element(p.bias, i) : 0),
                   dx = rstd * (dy(i) * w(i) - mean_g - h * mean_gh);
      CHECK(std::abs(element(got.y, r * p.n + i) - y) <= tolerance * (1 + std::abs(y)));
      CHECK(std::abs(element(gradients.x, r * p.n + i) - dx) <= tolerance * (1 + std::abs(dx)));
    }
  }
  for (int64_t i = 0; i < p.n; ++i) {
    const double scale = std::sqrt(static_cast<double>(rows)) + 1;
    if (with_weight)
      CHECK(std::abs(element(gradients.weight, i) - dweight[static_cast<size_t>(i)]) <=
            tolerance * 4 * scale);
    if (with_bias)
      CHECK(std::abs(element(gradients.bias, i) - dbias[static_cast<size_t>(i)]) <= tolerance * 4 * scale);
  }
}

}  // namespace

TEST_CASE("normalization: layer norm, RMS norm and their gradients match their formulas") {
  for (DType dtype : {f64, f32, bf16, f16})
    for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 64}, Shape{70, 33}, Shape{4, 130}}) {
      CAPTURE(to_string(dtype));
      CAPTURE(to_string(shape));
      const Problem p = problem(shape, dtype);
      check(p, true, true, true);
      check(p, true, true, false);
      check(p, true, false, false);
      check(p, false, true, false);
      check(p, false, false, false);
    }
}

TEST_CASE("normalization: inputs of other layouts, several axes at once") {
  const Problem p = problem({6, 40}, f32);
  const Tensor strided = p.x.transpose(0, 1).contiguous().transpose(0, 1);
  REQUIRE(!strided.is_contiguous());
  CHECK(same_bits(ops::layer_norm(strided, p.weight, p.bias).y, ops::layer_norm(p.x, p.weight, p.bias).y));
  const Tensor folded = ops::layer_norm(p.x.view({6, 5, 8}), p.weight.view({5, 8}), {}, 1e-5, 2).y;
  CHECK(same_bits(folded.view({6, 40}), ops::layer_norm(p.x, p.weight, {}).y));
}

TEST_CASE("normalization: a mean of 1e5 does not cost digits of the differences") {
  const Tensor x = Tensor::from<float>({100000, 100001, 100002, 100003}, {1, 4});
  const double rstd = 1 / std::sqrt(1.25 + 1e-5);
  const Tensor y = ops::layer_norm(x, {}, {}).y;
  for (int64_t i = 0; i < 4; ++i)
    CHECK(element(y, i) == doctest::Approx((static_cast<double>(i) - 1.5) * rstd).epsilon(1e-6));
}

TEST_CASE("normalization: the same bits for any number of threads and instruction set") {
  const Problem p = problem({1000, 96}, f32);
  const auto backward = [&] {
    const auto forward = ops::layer_norm(p.x, p.weight, p.bias);
    return ops::normalization_backward(p.dy, p.x, p.weight, forward.mean, forward.rstd, 1);
  };
  CHECK(same_for_any_number_of_threads([&] { return ops::layer_norm(p.x, p.weight, p.bias).y; }));
  CHECK(same_for_any_number_of_threads([&] { return backward().x; }));
  CHECK(same_for_any_number_of_threads([&] { return backward().weight; }));
  CHECK(same_for_any_number_of_threads([&] { return backward().bias; }));
  using namespace kernels::cpu;
  const auto fast = backward();
  const IsaScope scope(Isa::baseline);
  const auto slow = backward();
  CHECK(same_bits(fast.x, slow.x));
  CHECK(same_bits(fast.weight, slow.weight));
}

TEST_CASE("normalization: no rows, meta, and refused arguments") {
  const Tensor weight = Tensor::from<float>({1, 2});
  const auto none = ops::layer_norm(Tensor::empty({0, 2}, f32), weight, {});
  CHECK(none.y.shape() == Shape{0, 2});
  const auto gradients =
      ops::normalization_backward(none.y, none.y, weight, none.mean, none.rstd, 1, {.bias = false});
  CHECK(elements(gradients.weight) == std::vector<double>{0, 0});
  CHECK(!gradients.bias.defined());
  const auto shapes = ops::rms_norm(Tensor::empty({4, 3, 2}, bf16, meta()), {});
  CHECK(shapes.rstd.shape() == Shape{4, 3});
  CHECK(shapes.rstd.dtype() == f32);
  CHECK(!shapes.mean.defined());
  CHECK_THROWS_AS(ops::layer_norm(Tensor::empty({2, 3}, f32), weight, {}), ShapeError);
  CHECK_THROWS_AS(ops::layer_norm(Tensor::empty({2, 2}, f64), weight, {}), DTypeError);
  CHECK_THROWS_AS(ops::layer_norm(Tensor::empty({2, 2}, f32), {}, {}, 1e-5, 3), ShapeError);
  CHECK_THROWS_AS(ops::rms_norm(Tensor::empty({2, 2}, i64), {}), DTypeError);
}

TEST_CASE("normalization: fused with an addition and dropout, the values of the separate steps") {
  for (DType dtype : {f64, f32, bf16}) {
    CAPTURE(to_string(dtype));
    const Problem p = problem({3, 50, 96}, dtype);
    const Tensor delta = filled({3, 50, 96}, dtype, [](int64_t i) { return scattered(i + 500); });
    for (const ops::DropoutMask mask :
         {ops::DropoutMask{}, ops::DropoutMask{.probability = 0.25, .key = 9}}) {
      const auto fused = ops::add_layer_norm(p.x, delta, mask, p.weight, p.bias);
      CHECK(same_bits(fused.sum, ops::add_dropout(p.x, delta, mask)));
      if (dtype != bf16)
        CHECK(same_bits(fused.sum, ops::add(p.x, ops::dropout(delta, mask.probability, mask.key))));
      const auto steps = ops::layer_norm(fused.sum, p.weight, p.bias);
      CHECK(same_bits(fused.y, steps.y));
      CHECK(same_bits(fused.rstd, steps.rstd));
      CHECK(
          same_bits(ops::recompute_normalized(fused.sum, p.weight, p.bias, fused.mean, fused.rstd), fused.y));

      const auto both = ops::add_normalization_backward(p.x, p.dy, fused.sum, mask, p.weight, fused.mean,
                                                        fused.rstd, 1, {.delta = true});
      const auto alone = ops::normalization_backward(p.dy, fused.sum, p.weight, fused.mean, fused.rstd, 1);
      CHECK(same_bits(both.weight, alone.weight));
      CHECK(same_bits(both.bias, alone.bias));
      if (dtype == bf16) continue;
      CHECK(same_bits(both.x, ops::add(p.x, alone.x)));
      CHECK(same_bits(both.delta, ops::dropout(both.x, mask.probability, mask.key)));
    }
  }
  const Tensor flat = Tensor::zeros({4}, f32);
  CHECK_THROWS_AS(ops::add_layer_norm(flat, flat, {.probability = 0.5}, {}, {}), ShapeError);
  CHECK_THROWS_AS(ops::add_layer_norm(flat, Tensor::zeros({2}, f32), {}, {}, {}), ShapeError);
}
