#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

/// Whether both have one dtype, one shape and equal values.
bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(a == b).item_i64() != 0;
}

}  // namespace

TEST_CASE("creation: f32 unless the dtype is given") {
  CHECK(zeros({2, 3}).dtype() == f32);
  CHECK(ones({2}).dtype() == f32);
  CHECK(empty({2}).dtype() == f32);
  CHECK(eye(2).dtype() == f32);
  CHECK(linspace(0, 1, 3).dtype() == f32);
  CHECK(zeros({2}, i64).dtype() == i64);
  CHECK(ones({2}, bf16, meta()).is_meta());
  CHECK(zeros(5).shape() == Shape{5});
  CHECK(full({2}, 1).dtype() == i64);
  CHECK(full({2}, 1.5).dtype() == f32);
  CHECK(full({2}, true).dtype() == boolean);
  CHECK(full({2}, 1, f64).dtype() == f64);
}

TEST_CASE("creation: arange of integers and of floating bounds") {
  CHECK(same(arange(3), Tensor::from<int64_t>({0, 1, 2})));
  CHECK(same(arange(1, 3), Tensor::from<int64_t>({1, 2})));
  CHECK(same(arange(0, 6, 2), Tensor::from<int64_t>({0, 2, 4})));
  CHECK(same(arange(2.5), Tensor::from({0.0f, 1.0f, 2.0f})));
  CHECK(same(arange(0.0, 1.0, 0.5), Tensor::from({0.0f, 0.5f})));
  CHECK(same(arange(3, f32), Tensor::from({0.0f, 1.0f, 2.0f})));
}

TEST_CASE("creation: like another tensor, with its dtype or another") {
  const Tensor x = Tensor::from<int64_t>({1, 2, 3});
  CHECK(same(zeros_like(x), Tensor::from<int64_t>({0, 0, 0})));
  CHECK(same(ones_like(x, f32), Tensor::from({1.0f, 1.0f, 1.0f})));
  CHECK(same(full_like(x, 7), Tensor::from<int64_t>({7, 7, 7})));
  CHECK(empty_like(x, bf16).dtype() == bf16);
  CHECK_THROWS_WITH_AS(zeros_like(Tensor()), doctest::Contains("zeros_like"), ValueError);
}

TEST_CASE("creation: values in braces") {
  CHECK(same(tensor({1.0, 2.0}), Tensor::from({1.0f, 2.0f})));
  CHECK(same(tensor({1, 2}), Tensor::from<int64_t>({1, 2})));
  CHECK(same(tensor({true, false}), Tensor::from({true, false})));
  CHECK(same(tensor({1, 2}, f64), Tensor::from({1.0, 2.0})));
  CHECK(same(tensor({{1.0, 2.0}, {3.0, 4.0}}, f64), Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2})));
  CHECK(same(tensor({{1}, {2}}), Tensor::from<int64_t>({1, 2}, {2, 1})));
  CHECK(tensor({{{1, 2}, {3, 4}, {5, 6}}}).shape() == Shape{1, 3, 2});
  CHECK(same(tensor(0.5), Tensor::scalar(0.5f)));
  CHECK(same(tensor(std::vector<double>{1, 2}), Tensor::from({1.0f, 2.0f})));
  CHECK(tensor({1}, f32, meta()).is_meta());
  CHECK_THROWS_WITH_AS(tensor({{1, 2}, {3}}), doctest::Contains("expected 2 values"), ShapeError);
}

TEST_CASE("creation: from a vector or an array, with its type") {
  const std::vector<float> values = {1, 2, 3, 4};
  CHECK(same(Tensor::from(values), Tensor::from({1.0f, 2.0f, 3.0f, 4.0f})));
  CHECK(same(Tensor::from(values, {2, 2}), Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {2, 2})));
  CHECK(same(Tensor::from(std::array<int64_t, 2>{5, 6}), Tensor::from<int64_t>({5, 6})));
  CHECK_THROWS_AS(Tensor::from(values, {3}), ShapeError);
}

TEST_CASE("shape: entries for a structured binding") {
  const Tensor x = zeros({2, 3, 4});
  const auto [B, T, C] = x.shape().dims<3>();
  CHECK(B * 100 + T * 10 + C == 234);
  CHECK(x.dims<3>()[2] == 4);
  CHECK_THROWS_WITH_AS(x.dims<2>(), "dims: expected 2 dimensions, one per name, got the shape (2, 3, 4)",
                       ShapeError);
  CHECK_THROWS_AS(zeros({}).dims<1>(), ShapeError);
}

TEST_CASE("creation: on meta there are shapes alone") {
  CHECK(eye(2, 3, f32, meta()).shape() == Shape{2, 3});
  CHECK(tensor({{1, 2}}, {}, meta()).shape() == Shape{1, 2});
  CHECK(randint(3, {2}, i64, meta()).is_meta());
  CHECK(randperm(4, i64, meta()).shape() == Shape{4});
  CHECK(bernoulli(zeros({2}, f32, meta())).is_meta());
  CHECK(median_along(zeros({2, 3}, f32, meta()), 1).indices.shape() == Shape{2});
  CHECK(max_along(zeros({2, 3}, f32, meta()), 0).values.shape() == Shape{3});
  CHECK_THROWS_AS(eye(-1), ShapeError);
}
