// Sizes that 64 bits do not hold, and extents of 0.
#include <doctest/doctest.h>

#include <limits>

#include "tensor/composed/functions.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/layers/loss.h"
#include "tensor/ops/layers/normalization.h"
#include "tensor/ops/layers/softmax.h"
#include "tensor/ops/reduction.h"
#include "tensor/ops/shaping.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
constexpr int64_t two_32 = int64_t{1} << 32, two_40 = int64_t{1} << 40, two_62 = int64_t{1} << 62;

Tensor line(int64_t n) {
  return filled({n}, f32, [](int64_t i) { return static_cast<double>(i); });
}

}  // namespace

TEST_CASE("sizes: a tensor of more elements or bytes than 64 bits hold is refused, also on meta") {
  for (Device device : {cpu(), meta()}) {
    CHECK_THROWS_AS(Tensor::empty({two_32, two_32}, u8, device), ShapeError);
    CHECK_THROWS_AS(Tensor::zeros({two_32, two_32}, f32, device), ShapeError);
    CHECK_THROWS_AS(Tensor::empty({two_62}, f32, device), ShapeError);
    CHECK_THROWS_AS(Tensor::empty({two_32, two_32, 0}, f32, device), ShapeError);
    CHECK_THROWS_AS(Tensor::empty({0, two_32, two_32}, f32, device), ShapeError);
    CHECK_THROWS_AS(Tensor::empty({two_40, two_40, two_40, two_40}, f32, device), ShapeError);
    CHECK_THROWS_AS(ops::full({two_32, two_32}, 1, f32, device), ShapeError);
    CHECK(Tensor::empty({0, two_40}, f32, device).numel() == 0);
  }
  CHECK_THROWS_AS(Tensor::empty({most}, u8), OutOfMemoryError);
  CHECK_THROWS_AS(Tensor::empty({two_62}, u8), OutOfMemoryError);
  CHECK_THROWS_AS(Storage::allocate(-1, cpu()), ValueError);
  CHECK(Tensor::empty({two_40, 1024}, f32, meta()).nbytes() == (int64_t{1} << 52));
  CHECK_THROWS_AS((Shape{two_32, two_32}.numel()), ShapeError);
  CHECK_THROWS_WITH_AS((contiguous_strides({1, two_32, two_32})), doctest::Contains("64 bits"), ShapeError);
}

TEST_CASE("sizes: views of huge extents, bounds and steps") {
  const Tensor x = line(6), one = line(1);
  CHECK_THROWS_AS(one.expand({two_32, two_32}), ShapeError);
  CHECK_THROWS_AS(one.expand({two_62}), ShapeError);  // more bytes than 64 bits hold
  CHECK(one.expand({two_40}).numel() == two_40);
  CHECK_THROWS_AS(x.view({two_32, two_32}), ShapeError);
  CHECK_THROWS_AS(x.view({two_32, two_32, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({two_32, two_32, 6}), ShapeError);
  CHECK_THROWS_AS(x.narrow(0, 1, most), IndexError);
  CHECK_THROWS_AS(x.narrow(0, most, 1), IndexError);
  CHECK_THROWS_AS(x.narrow(0, most, most), IndexError);
  CHECK_THROWS_AS(x.narrow(0, least, 1), IndexError);
  CHECK_THROWS_AS(x.narrow(0, 0, least), IndexError);
  CHECK(x.narrow(0, 6, 0).numel() == 0);
  CHECK_THROWS_AS(x.select(0, most), IndexError);
  CHECK_THROWS_AS(x.select(0, least), IndexError);
  CHECK(elements(x.slice(0, least, most)) == elements(x));
  CHECK(elements(x.slice(0, 2, most, most)) == std::vector<double>{2});
  CHECK(elements(x.slice(0, 0, most, 5)) == std::vector<double>{0, 5});
  CHECK(x.slice(0, most, most).numel() == 0);
  CHECK(x.slice(0, most, least, most).numel() == 0);
  CHECK_THROWS_AS(x.slice(0, 0, 6, least), ValueError);
  const Tensor column = filled({6, 4}, f32, scattered).slice(0, 1, 6, most);
  CHECK(column.shape() == Shape{1, 4});
  CHECK_THROWS_AS(x.transpose(most, 0), IndexError);
  CHECK_THROWS_AS(x.unsqueeze(least), IndexError);
  CHECK_THROWS_AS(
      Tensor::empty({0, two_40, 1024}, f32).expand({0, two_40, 1024}).flatten(0, 2).view({most, most}),
      ShapeError);
}

TEST_CASE("sizes: as_strided computes its size without overflow") {
  const Tensor x = line(12);
  CHECK_THROWS_AS(x.as_strided({2}, {most}, 0), ShapeError);
  CHECK_THROWS_AS(x.as_strided({two_32, 2}, {two_32, 1}, 0), ShapeError);
  CHECK_THROWS_AS(x.as_strided({3, 3}, {two_62, two_62}, 0), ShapeError);
  CHECK_THROWS_AS(x.as_strided({2}, {two_62}, 0), ShapeError);  // its bytes are 2^64
  CHECK_THROWS_AS(x.as_strided({1}, {1}, most), ShapeError);
  CHECK_THROWS_AS(x.as_strided({2}, {1}, most - 1), ShapeError);
  CHECK_THROWS_AS(x.as_strided({2}, {1}, least), ShapeError);
  CHECK_THROWS_AS(x.as_strided({least}, {1}, 0), ShapeError);
  CHECK_THROWS_AS(x.as_strided({2}, {least}, 0), ShapeError);
  CHECK_THROWS_AS(x.as_strided({two_40, two_40}, {0, 0}, 0), ShapeError);
  CHECK(elements(x.as_strided({2, 2}, {5, 3}, 1)) == std::vector<double>{1, 4, 6, 9});
  CHECK_THROWS_AS(x.as_strided({2, 2}, {8, 3}, 1), ShapeError);
  CHECK_THROWS_AS(Tensor::over(x.storage(), f32, {2}, {most}), ShapeError);
}

TEST_CASE("sizes: operations that compute a shape") {
  const Tensor x = filled({2, 3}, f32, scattered), wide = line(1).expand({two_40 << 20});
  CHECK_THROWS_AS(ops::pad(x, {most, 0}, {most, 0}), ShapeError);
  CHECK_THROWS_AS(ops::pad(x, {two_40, two_40}, {0, 0}), ShapeError);
  CHECK_THROWS_AS(ops::repeat(x, {most, 2}), ShapeError);
  CHECK_THROWS_AS(ops::repeat(x, {two_32, two_32}), ShapeError);
  CHECK(ops::chunk(x, most, 1).size() == 3);
  CHECK_THROWS_AS(ops::split(x, std::vector<int64_t>{most, most, 4}, 1), ShapeError);
  CHECK_THROWS_AS(ops::cat(std::vector<Tensor>(8, wide.to(meta())), 0), ShapeError);
  CHECK_THROWS_AS(ops::one_hot(Tensor::from<int64_t>({0, 1}), most), ShapeError);
  CHECK_THROWS_AS(ops::arange(0.0, 1e300, 1e-300, f64), ShapeError);
  CHECK_THROWS_AS(ops::arange(least, most, 1, i64, meta()), ShapeError);
  CHECK_THROWS_AS(ops::linspace(0, 1, most), ShapeError);
  CHECK_THROWS_AS(ops::topk(x, most), ValueError);
  CHECK(elements(ops::tril(x, most)) == elements(x));
  CHECK(elements(ops::triu(x, least)) == elements(x));
  CHECK(ops::sum(ops::tril(x, least)).item() == 0);
  CHECK(elements(ops::roll(x, least, 1)) == elements(ops::roll(x, least % 3, 1)));
}

TEST_CASE("sizes: diagonals far outside of a matrix") {
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  const Tensor vector = Tensor::zeros({3}, f32), matrix = Tensor::zeros({3, 4}, f32);
  for (const int64_t k : {most, most - 1, least, least + 1, int64_t{1} << 40})
    CHECK_THROWS_WITH_AS(diag(vector, k), doctest::Contains("too many elements"), ShapeError);
  for (const int64_t k : {most, least, int64_t{4}, int64_t{-3}}) {
    CHECK(diag(matrix, k).numel() == 0);
    CHECK(diagonal(matrix, k).shape() == Shape{0});
  }
  CHECK(diagonal(matrix, 3).numel() == 1);
}

TEST_CASE("no classes: losses refuse them, and other operations accept an extent of 0") {
  const Tensor logits = Tensor::zeros({2, 0}, f32), targets = Tensor::from<int64_t>({0, 0});
  CHECK_THROWS_WITH_AS(ops::cross_entropy(logits, targets), doctest::Contains("at least one class"),
                       ShapeError);
  CHECK_THROWS_AS(ops::cross_entropy(logits.to(meta()), targets.to(meta())), ShapeError);
  CHECK_THROWS_AS(ops::cross_entropy(Tensor::zeros({0, 0}, f32), Tensor::zeros({0}, i64)), ShapeError);
  CHECK_THROWS_AS(
      ops::cross_entropy_backward(Tensor::scalar(1.0f), logits, targets, {}, {}, ops::CrossEntropyOptions()),
      ShapeError);
  CHECK_THROWS_AS(
      ops::linear_cross_entropy(Tensor::zeros({2, 3}, f32), Tensor::zeros({0, 3}, f32), {}, targets, {}, {}),
      ShapeError);
  CHECK(std::isnan(ops::cross_entropy(Tensor::zeros({0, 3}, f32), Tensor::zeros({0}, i64)).loss.item()));
  CHECK(ops::softmax(logits).shape() == Shape{2, 0});
  CHECK(ops::log_softmax(logits, 1).numel() == 0);
  CHECK(ops::softmax(logits, 0).numel() == 0);
  CHECK(ops::softmax_backward(logits, logits).numel() == 0);
  CHECK(ops::one_hot(Tensor::zeros({0}, i64), 0).shape() == Shape{0, 0});
  CHECK_THROWS_AS(ops::one_hot(targets, 0), IndexError);
  CHECK_THROWS_AS(ops::argmax(logits, 1), ShapeError);
  CHECK(ops::sort(logits).values.numel() == 0);
  CHECK(ops::topk(logits, 0).values.numel() == 0);
  CHECK(ops::cumsum(logits).numel() == 0);
  CHECK(ops::layer_norm(logits, {}, {}).y.numel() == 0);
  CHECK(ops::tril(logits).numel() == 0);
}
