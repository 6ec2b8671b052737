#include "tensor/ops/layers/softmax.h"

#include <doctest/doctest.h>

#include <limits>

#include "tensor/cpu/isa.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

/// Half an ulp of the result, and for f32 and f64 a few more from exp and the sum.
double tolerance_of(DType dtype) {
  return dtype == f64 ? 1e-15 : dtype == f32 ? 3e-7 : dtype == f16 ? 0x1p-11 : 0x1p-8;
}

/// Row `r` of x along `dim`, by arithmetic on indices alone.
std::vector<double> row_of(const Tensor& x, int64_t dim, int64_t r) {
  int64_t inner = 1;
  for (int d = static_cast<int>(dim) + 1; d < x.ndim(); ++d) inner *= x.shape()[d];
  const int64_t n = x.shape()[dim];
  std::vector<double> row;
  for (int64_t i = 0; i < n; ++i) row.push_back(element(x, (r / inner * n + i) * inner + r % inner));
  return row;
}

void check_softmax(const Tensor& x, int64_t dim) {
  const double tolerance = tolerance_of(x.dtype());
  const Tensor y = ops::softmax(x, dim), z = ops::log_softmax(x, dim);
  const Tensor dy = filled(x.shape(), x.dtype(), [](int64_t i) { return scattered(i + 99); });
  const Tensor dx = ops::softmax_backward(y, dy, dim), dz = ops::log_softmax_backward(z, dy, dim);
  const int64_t n = x.shape()[dim];
  for (int64_t r = 0; r < x.numel() / n; ++r) {
    const auto in = row_of(x, dim, r), g = row_of(dy, dim, r), p = row_of(y, dim, r), l = row_of(z, dim, r);
    const auto d = row_of(dx, dim, r), e = row_of(dz, dim, r);
    double largest = in[0], sum = 0, inner = 0, total = 0;
    for (double v : in) largest = std::max(largest, v);
    for (double v : in) sum += std::exp(v - largest);
    for (size_t i = 0; i < in.size(); ++i) {
      inner += p[i] * g[i];
      total += g[i];
    }
    const double scale = static_cast<double>(n);
    for (size_t i = 0; i < in.size(); ++i) {
      const double probability = std::exp(in[i] - largest) / sum;
      const double log_probability = in[i] - largest - std::log(sum);
      const double last_subnormal = x.dtype() == f16 ? 0x1p-24 : 0;
      CHECK(std::abs(p[i] - probability) <= tolerance * 4 * probability + last_subnormal);
      CHECK(std::abs(l[i] - log_probability) <= tolerance * (1 + std::abs(log_probability)));
      CHECK(std::abs(d[i] - p[i] * (g[i] - inner)) <= tolerance * 8 * (scale * p[i] + std::abs(d[i])));
      CHECK(std::abs(e[i] - (g[i] - std::exp(l[i]) * total)) <= tolerance * 8 * (scale + std::abs(e[i])));
    }
  }
}

}  // namespace

TEST_CASE("softmax: the formula and its gradient, along any dimension of any strides") {
  for (DType dtype : {f64, f32, bf16, f16}) {
    CAPTURE(to_string(dtype));
    const Tensor x = filled({3, 5, 70}, dtype, scattered);
    for (int64_t dim = 0; dim < 3; ++dim) {
      check_softmax(x, dim);
      check_softmax(x.permute({2, 0, 1}), dim);
      check_softmax(x.slice(2, 1, 70, 3), dim);
      check_softmax(x.select(0, 1).unsqueeze(0).expand({2, 5, 70}), dim);
    }
    for (int64_t n : {1, 15, 16, 17, 31, 32, 33, 64, 65, 1000})
      check_softmax(filled({2, n}, dtype, scattered), 1);
  }
}

TEST_CASE("softmax: values of any magnitude, masked rows") {
  const Tensor huge = Tensor::from<float>({1e38f, -1e38f, 1e38f, -3e38f, 3e38f, 0}, {2, 3});
  CHECK(elements(ops::softmax(huge)) == std::vector<double>{0.5, 0, 0.5, 0, 1, 0});
  const Tensor masked = Tensor::from<float>({-INFINITY, 2, -INFINITY, 2}, {1, 4});
  CHECK(elements(ops::softmax(masked)) == std::vector<double>{0, 0.5, 0, 0.5});
  CHECK(element(ops::log_softmax(masked), 0) == -std::numeric_limits<double>::infinity());
  for (const Tensor& row : {Tensor::from<float>({-INFINITY, -INFINITY}), Tensor::from<float>({INFINITY, 1}),
                            Tensor::from<float>({NAN, 1})})
    for (double p : elements(ops::softmax(row))) CHECK(std::isnan(p));
}

TEST_CASE("softmax: the same bits for any number of threads, instruction set and position of the row") {
  const Tensor x = filled({300, 129}, f32, scattered);
  CHECK(same_for_any_number_of_threads([&] { return ops::softmax(x); }));
  CHECK(same_for_any_number_of_threads([&] { return ops::log_softmax(x, 0); }));
  const Tensor y = ops::softmax(x), one = ops::softmax(x.slice(0, 77, 78));
  CHECK(same_bits(one, y.slice(0, 77, 78).contiguous()));
  using namespace kernels::cpu;
  for (Isa isa : {Isa::baseline, Isa::avx2}) {
    const IsaScope scope(isa);
    CHECK(same_bits(y, ops::softmax(x)));
  }
}

TEST_CASE("softmax: empty and 0-dim tensors, meta, and refused arguments") {
  CHECK(ops::softmax(Tensor::empty({0, 3}, f32)).shape() == Shape{0, 3});
  CHECK(ops::softmax(Tensor::empty({3, 0}, f32)).shape() == Shape{3, 0});
  CHECK(ops::softmax(Tensor::scalar(5.f)).item() == 1);
  CHECK(ops::softmax(Tensor::empty({2, 3}, bf16, meta())).dtype() == bf16);
  CHECK_THROWS_AS(ops::softmax(Tensor::empty({2, 3}, f32), 2), IndexError);
  CHECK_THROWS_AS(ops::softmax(Tensor::empty({2, 3}, i64)), DTypeError);
  CHECK_THROWS_AS(ops::softmax_backward(Tensor::empty({2, 3}, f32), Tensor::empty({3, 2}, f32)), ShapeError);
}
