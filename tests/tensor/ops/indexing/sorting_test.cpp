#include "tensor/ops/indexing/sorting.h"

#include <doctest/doctest.h>

#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

/// Checks that values are ordered along `dim`, equal ones by index, that each is the value at its index, and
/// that no index repeats.
void check_order(const Tensor& x, const ops::Sorted& sorted, int64_t dim, bool descending) {
  const Tensor from = x.transpose(dim, x.ndim() - 1), values = sorted.values.transpose(dim, x.ndim() - 1),
               indices = sorted.indices.transpose(dim, x.ndim() - 1);
  const int64_t n = from.shape().back(), k = values.shape().back();
  for (int64_t row = 0; row < values.numel() / k; ++row) {
    std::vector<bool> seen(static_cast<size_t>(n));
    for (int64_t i = 0; i < k; ++i) {
      const int64_t index = static_cast<int64_t>(element(indices, row * k + i));
      const double value = element(values, row * k + i);
      CHECK(!seen[static_cast<size_t>(index)]);
      seen[static_cast<size_t>(index)] = true;
      CHECK(element(from, row * n + index) == value);
      if (i == 0) continue;
      const double previous = element(values, row * k + i - 1);
      CHECK((descending ? previous >= value : previous <= value));
      if (previous == value) CHECK(element(indices, row * k + i - 1) < static_cast<double>(index));
    }
    for (int64_t i = 0; i < n; ++i) {
      if (seen[static_cast<size_t>(i)]) continue;
      const double left_out = element(from, row * n + i), last = element(values, row * k + k - 1);
      CHECK((descending ? left_out <= last : left_out >= last));
    }
  }
}

}  // namespace

TEST_CASE("sorting: sort and topk, any dimension, strides and dtype, equal values in their order") {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    CAPTURE(to_string(dtype));
    const Tensor x =
        filled({4, 9, 5}, dtype, [](int64_t i) { return std::abs(std::round(scattered(i) * 2)); });
    for (const Tensor& y : {x, x.permute({1, 2, 0}), x.slice(1, 0, 9, 2)})
      for (int64_t dim = 0; dim < 3; ++dim)
        for (bool descending : {false, true}) {
          check_order(y, ops::sort(y, dim, descending), dim, descending);
          check_order(y, ops::topk(y, 3, dim, descending), dim, descending);
          CHECK(same_bits(ops::argsort(y, dim, descending), ops::sort(y, dim, descending).indices));
        }
  }
}

TEST_CASE("sorting: a NaN is larger than infinity") {
  const Tensor x = Tensor::from<float>({NAN, 1, INFINITY, -INFINITY, NAN});
  CHECK(elements(ops::argsort(x)) == std::vector<double>{3, 1, 2, 0, 4});
  CHECK(elements(ops::argsort(x, 0, true)) == std::vector<double>{0, 4, 2, 1, 3});
  CHECK(elements(ops::topk(x, 2, 0, false).values) == std::vector<double>{-INFINITY, 1});
}

TEST_CASE("sorting: cumulative sums") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(elements(ops::cumsum(x, 1)) == std::vector<double>{1, 3, 6, 4, 9, 15});
  CHECK(elements(ops::cumsum(x, 0)) == std::vector<double>{1, 2, 3, 5, 7, 9});
  CHECK(elements(ops::cumsum(x.transpose(0, 1), 0)) == std::vector<double>{1, 4, 3, 9, 6, 15});
  const Tensor bytes = Tensor::from<uint8_t>({200, 100});
  CHECK(ops::cumsum(bytes).dtype() == i64);
  CHECK(elements(ops::cumsum(bytes)) == std::vector<double>{200, 300});
  // In f32 alone, the ones after 2^24 would be lost.
  const Tensor large = Tensor::from<float>({16777216, 1, 1});
  CHECK(element(ops::cumsum(large), 2) == 16777218);
}

TEST_CASE("sorting: empty and 0-dim tensors, meta, and refused arguments") {
  CHECK(ops::sort(Tensor::empty({0, 3}, f32), 0).values.shape() == Shape{0, 3});
  CHECK(ops::topk(Tensor::empty({2, 3}, f32), 0).indices.shape() == Shape{2, 0});
  CHECK(ops::sort(Tensor::scalar(2.f)).values.item() == 2);
  CHECK(ops::cumsum(Tensor::scalar(2.f)).item() == 2);
  CHECK(ops::topk(Tensor::empty({2, 7}, f32, meta()), 4).values.shape() == Shape{2, 4});
  CHECK_THROWS_AS(ops::topk(Tensor::empty({2, 3}, f32), 4), ValueError);
  CHECK_THROWS_AS(ops::topk(Tensor::empty({2, 3}, f32), -1), ValueError);
  CHECK_THROWS_AS(ops::sort(Tensor::empty({2, 3}, f32), 2), IndexError);
}
