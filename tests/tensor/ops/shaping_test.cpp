#include "tensor/ops/shaping.h"

#include <doctest/doctest.h>

#include "tests/tensor/test_values.h"

using namespace tessera;

TEST_CASE("cat and stack: slices of the result are the inputs, for any strides and dtype") {
  for (DType dtype : {f64, f32, bf16}) {
    const Tensor a = random_tensor({2, 3, 4}, dtype, 1), b = random_tensor({2, 1, 4}, dtype, 2),
                 c = random_tensor({4, 5, 2}, dtype, 3).transpose(0, 2),
                 none = random_tensor({2, 0, 4}, dtype, 4);
    const Tensor all = ops::cat(std::vector{a, none, b, c}, -2);
    CHECK(all.shape() == Shape{2, 9, 4});
    CHECK(same_bits(all.narrow(1, 0, 3), a));
    CHECK(same_bits(all.narrow(1, 3, 1), b));
    CHECK(same_bits(all.narrow(1, 4, 5), c));
  }
  const Tensor x = random_tensor({2, 3}, f32, 5), y = random_tensor({3, 2}, f32, 6).transpose(0, 1);
  for (int64_t dim : {0, 1, 2, -1}) {
    const Tensor both = ops::stack(std::vector{x, y}, dim);
    CHECK(same_bits(both.select(dim, 0), x));
    CHECK(same_bits(both.select(dim, 1), y));
  }
  CHECK(ops::cat(std::vector{x.to(meta()), x.to(meta())}, 0).is_meta());
  CHECK_THROWS_AS(ops::cat(std::vector<Tensor>{}, 0), ValueError);
  CHECK_THROWS_WITH_AS(
      ops::cat(std::vector{x, random_tensor({2, 4}, f32, 1)}, 0),
      "cat: along dimension 0, (2, 4) f32 on cpu does not follow (2, 3) f32 on cpu: the other "
      "dimensions must be equal",
      ShapeError);
  CHECK_THROWS_AS(ops::cat(std::vector{x, random_tensor({2, 3}, f64, 1)}, 0), DTypeError);
  CHECK_THROWS_AS(ops::stack(std::vector{x, random_tensor({3, 3}, f32, 1)}, 0), ShapeError);
}

TEST_CASE("split and chunk: views that cover the dimension in order") {
  const Tensor x = random_tensor({2, 7}, f32, 7);
  const auto parts = ops::split(x, std::vector<int64_t>{1, 0, 4, 2}, 1);
  CHECK(same_bits(ops::cat(parts, 1), x));
  CHECK(parts[2].shares_storage(x));
  const auto chunks = ops::chunk(x, 3, 1);
  CHECK(chunks.size() == 3);
  CHECK(chunks[2].shape() == Shape{2, 1});
  CHECK(ops::chunk(x, 5, 1).size() == 4);
  CHECK(same_bits(ops::cat(chunks, 1), x));
  CHECK_THROWS_AS(ops::split(x, std::vector<int64_t>{1, 2}, 1), ShapeError);
  CHECK_THROWS_AS(ops::chunk(x, 0, 1), ValueError);
}

TEST_CASE("pad: the tensor inside, the padding value around it") {
  const Tensor x = random_tensor({2, 3}, f32, 8);
  const Tensor padded = ops::pad(x, {1, 0}, {2, 2}, -1.5);
  CHECK(padded.shape() == Shape{5, 5});
  CHECK(same_bits(padded.narrow(0, 1, 2).narrow(1, 0, 3), x));
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 5; ++j)
      if (i < 1 || i > 2 || j > 2) CHECK(padded.data<float>()[i * 5 + j] == -1.5f);
  CHECK_THROWS_AS(ops::pad(x, {1}, {1}), ShapeError);
  CHECK_THROWS_AS(ops::pad(x, {-1, 0}, {0, 0}), ValueError);
}

TEST_CASE("repeat: the tensor at every position") {
  const Tensor x = random_tensor({2, 3}, f64, 9);
  const Tensor tiles = ops::repeat(x, {2, 3, 2});
  CHECK(tiles.shape() == Shape{2, 6, 6});
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 2; ++c)
        CHECK(same_bits(tiles.select(0, a).narrow(0, 2 * b, 2).narrow(1, 3 * c, 3), x));
  CHECK(ops::repeat(x, {0, 2}).shape() == Shape{0, 6});
  CHECK_THROWS_AS(ops::repeat(x, {2}), ShapeError);
}

TEST_CASE("flip and roll: the new position of each element") {
  const Tensor x = random_tensor({3, 4, 2}, f32, 10);
  const Tensor flipped = ops::flip(x.transpose(1, 2), {0, -1});  // (3, 2, 4)
  const Tensor rolled = ops::roll(x, -5, 1);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t k = 0; k < 2; ++k) {
        const float value = x.data<float>()[(i * 4 + j) * 2 + k];
        CHECK(flipped.data<float>()[((2 - i) * 2 + k) * 4 + 3 - j] == value);
        CHECK(rolled.data<float>()[(i * 4 + (j + 3) % 4) * 2 + k] == value);
      }
  CHECK_THROWS_AS(ops::flip(x, {0, 0}), ValueError);
}

TEST_CASE("tril and triu: the elements of the triangle, and 0 elsewhere") {
  const Tensor x = random_tensor({2, 3, 5}, f32, 11);
  for (int64_t diagonal : {-4, -1, 0, 2, 7}) {
    const Tensor low = ops::tril(x, diagonal),
                 high = ops::triu(x.transpose(1, 2).clone().transpose(1, 2), diagonal);
    for (int64_t e = 0; e < 2; ++e)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          const int64_t at = (e * 3 + i) * 5 + j;
          CHECK(low.data<float>()[at] == (j - i <= diagonal ? x.data<float>()[at] : 0.0f));
          CHECK(high.data<float>()[at] == (j - i >= diagonal ? x.data<float>()[at] : 0.0f));
        }
  }
  CHECK_THROWS_AS(ops::tril(Tensor::zeros({3}, f32)), ShapeError);
}
