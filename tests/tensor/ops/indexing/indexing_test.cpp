#include "tensor/ops/indexing/indexing.h"

#include <doctest/doctest.h>

#include "tensor/ops/creation/creation.h"
#include "tensor/threads/parallel.h"
#include "tests/tensor/test_values.h"

using namespace tessera;

TEST_CASE("embedding: rows of the table for i64 and i32 ids of any shape") {
  const Tensor table = random_tensor({5, 70}, f32, 1);
  const Tensor ids = Tensor::from<int64_t>({0, 4, 2, 2, 1, 0}, {2, 3});
  const Tensor rows = ops::embedding(ids, table);
  CHECK(rows.shape() == Shape{2, 3, 70});
  CHECK(same_bits(rows.select(0, 1).select(0, 1), table.select(0, 1)));
  CHECK(same_bits(ops::embedding(Tensor::from<int32_t>({0, 4, 2, 2, 1, 0}, {2, 3}), table), rows));
  CHECK(same_bits(ops::embedding(ids, table.transpose(0, 1).clone().transpose(0, 1)), rows));
  CHECK(same_bits(ops::embedding(ids.transpose(0, 1), table), rows.transpose(0, 1)));
  CHECK(ops::embedding(Tensor::zeros({0}, i64), table).shape() == Shape{0, 70});
  CHECK(ops::embedding(ids.to(meta()), table.to(meta())).shape() == Shape{2, 3, 70});
}

TEST_CASE("embedding: an id outside the table is named with its position and the limit") {
  const Tensor table = Tensor::zeros({65, 2}, f32);
  CHECK_THROWS_WITH_AS(ops::embedding(Tensor::from<int64_t>({0, 1, 2, 65}, {2, 2}), table),
                       "embedding: index 65 at position (1, 1) is outside [0, 65)", IndexError);
  CHECK_THROWS_WITH_AS(ops::embedding(Tensor::from<int32_t>({0, -1}), table),
                       "embedding: index -1 at position (1,) is outside [0, 65)", IndexError);
  const Tensor gradient = Tensor::zeros({65, 2}, f32);
  CHECK_THROWS_AS(
      ops::embedding_accumulate(gradient, random_tensor({2, 2}, f32, 1), Tensor::from<int64_t>({0, 70})),
      IndexError);
  CHECK(same_bits(gradient, Tensor::zeros({65, 2}, f32)));
  CHECK_THROWS_AS(ops::embedding(Tensor::zeros({2}, f32), table), DTypeError);
  CHECK_THROWS_AS(ops::embedding(Tensor::zeros({2}, i64), Tensor::zeros({3}, f32)), ShapeError);
}

TEST_CASE(
    "embedding: the gradient adds the rows of each id to the buffer, the same bits on any number of "
    "threads") {
  for (DType dtype : {f64, f32, bf16, f16}) {
    const int64_t rows = 300, width = 130;
    const Tensor ids = Tensor::empty({3, 100}, i64);
    for (int64_t i = 0; i < rows; ++i) ids.data<int64_t>()[i] = (i * i + 3) % 11;
    const Tensor dy = random_tensor({3, 100, width}, dtype, 2), start = random_tensor({12, width}, dtype, 3);
    const Tensor expected = to_f64(start).clone(), terms = to_f64(dy);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; ++j)
        expected.data<double>()[ids.data<int64_t>()[i] * width + j] += terms.data<double>()[i * width + j];
    const int before = num_threads();
    Tensor first;
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      const Tensor gradient = start.clone();
      const uint64_t version = gradient.version();
      ops::embedding_accumulate(gradient, dy, ids);
      CHECK(gradient.version() > version);
      // Multiples of 1/128 below 256 sum exactly in f32; a narrow result is rounded once (16 is the largest
      // sum).
      CHECK(largest_difference(gradient, expected) <= (size_of(dtype) == 2 ? 16 * 0x1p-8 : 0.0));
      if (threads == 1) first = gradient;
      CHECK(same_bits(gradient, first));
    }
    set_num_threads(before);
    if (size_of(dtype) > 2) continue;
    const Tensor wide = Tensor::zeros({12, width}, f32);
    ops::embedding_accumulate(wide, dy, ids);
    CHECK(largest_difference(wide, [&] {
            const Tensor from_zero = Tensor::zeros({12, width}, f64);
            ops::embedding_accumulate(from_zero, terms, ids);
            return from_zero;
          }()) == 0.0);
  }
}

TEST_CASE("index_select and index_add: slices along any dimension, contiguous or not") {
  const Tensor x = random_tensor({4, 3, 5}, f64, 4);
  for (int64_t dim : {0, 1, 2, -1}) {
    const Tensor index = Tensor::from<int64_t>({2, 0, 2, 1});
    for (const Tensor& layout : {x, x.transpose(0, 2).clone().transpose(0, 2)}) {
      const Tensor picked = ops::index_select(layout, dim, index);
      for (int64_t i = 0; i < 4; ++i)
        CHECK(same_bits(picked.select(dim, i), x.select(dim, index.data<int64_t>()[i])));
      const Tensor sum = layout.clone().transpose(0, 1).clone().transpose(0, 1);  // not contiguous
      ops::index_add_out(sum, dim, index, picked);
      for (int64_t i = 0; i < x.size(dim); ++i) {
        const double times = i == 2 ? 3 : i < 2 ? 2 : 1;
        const Tensor expected = x.select(dim, i).clone();
        for (int64_t j = 0; j < expected.numel(); ++j) expected.data<double>()[j] *= times;
        CHECK(largest_difference(sum.select(dim, i), expected) == 0.0);
      }
    }
  }
  CHECK(ops::index_select(x, 1, Tensor::zeros({0}, i64)).shape() == Shape{4, 0, 5});
  CHECK_THROWS_AS(ops::index_select(x, 1, Tensor::from<int64_t>({3})), IndexError);
  CHECK_THROWS_AS(ops::index_add_out(x, 1, Tensor::from<int64_t>({0}), x), ShapeError);
}

TEST_CASE("gather, scatter, scatter_add: element by element, by their definitions") {
  const Tensor x = random_tensor({3, 4, 5}, f32, 5);
  for (int64_t dim : {0, 1, 2}) {
    Shape shape{2, 3, 4};
    const Tensor index = Tensor::empty(shape, i64);
    for (int64_t i = 0; i < index.numel(); ++i) index.data<int64_t>()[i] = (i * 7) % x.size(dim);
    const Tensor source = random_tensor({3, 3, 4}, f32, 6);
    const Tensor gathered = ops::gather(x.transpose(0, 1).clone().transpose(0, 1), dim, index);
    const Tensor scattered = ops::scatter(x, dim, index, source),
                 added = ops::scatter_add(x, dim, index, source);
    const Tensor last = x.clone(), sum = x.clone();
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        for (int64_t k = 0; k < 4; ++k) {
          const int64_t id = index.data<int64_t>()[(i * 3 + j) * 4 + k];
          const int64_t at = dim == 0   ? (id * 4 + j) * 5 + k
                             : dim == 1 ? (i * 4 + id) * 5 + k
                                        : (i * 4 + j) * 5 + id;
          CHECK(gathered.data<float>()[(i * 3 + j) * 4 + k] == x.data<float>()[at]);
          last.data<float>()[at] = source.data<float>()[(i * 3 + j) * 4 + k];
          sum.data<float>()[at] += source.data<float>()[(i * 3 + j) * 4 + k];
        }
    CHECK(same_bits(scattered, last));
    CHECK(same_bits(added, sum));
  }
  CHECK_THROWS_WITH_AS(ops::gather(x, 1, Tensor::from<int64_t>({4}, {1, 1, 1})),
                       "gather: index 4 at position (0, 0, 0) is outside [0, 4)", IndexError);
  CHECK_THROWS_AS(ops::gather(x, 1, Tensor::zeros({4, 1, 1}, i64)), ShapeError);
  CHECK_THROWS_AS(ops::scatter(x, 1, Tensor::zeros({1, 2, 1}, i64), Tensor::zeros({1, 1, 1}, f32)),
                  ShapeError);
  CHECK_THROWS_AS(ops::scatter(x, 1, Tensor::zeros({1, 1, 1}, i64), Tensor::zeros({1, 1, 1}, f64)),
                  DTypeError);
}

TEST_CASE("take_along: broadcasts all dimensions but its own") {
  const Tensor x = random_tensor({3, 4}, f32, 7);
  const Tensor row = Tensor::from<int64_t>({3, 0}, {1, 2});
  const Tensor taken = ops::take_along(x, row, 1);
  CHECK(taken.shape() == Shape{3, 2});
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(taken.data<float>()[i * 2] == x.data<float>()[i * 4 + 3]);
    CHECK(taken.data<float>()[i * 2 + 1] == x.data<float>()[i * 4]);
  }
}

TEST_CASE("one_hot: a one at each id") {
  CHECK(same_bits(ops::one_hot(Tensor::from<int64_t>({2, 0}), 3),
                  Tensor::from<int64_t>({0, 0, 1, 1, 0, 0}, {2, 3})));
  CHECK(ops::one_hot(Tensor::zeros({2, 0}, i32), 3).shape() == Shape{2, 0, 3});
  CHECK_THROWS_AS(ops::one_hot(Tensor::from<int64_t>({3}), 3), IndexError);
}
