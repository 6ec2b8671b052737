#include "tensor/ops/indexing/embedding_add.h"

#include <doctest/doctest.h>

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tests/tensor/reference.h"

using namespace tessera;
using namespace tessera::reference;

namespace {

constexpr int64_t batch = 5, positions = 30, width = 70, rows = 11;

Tensor some_ids() {
  const Tensor ids = Tensor::empty({batch, positions}, i64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = i * i % (rows - 1);
  return ids;
}

}  // namespace

TEST_CASE("embedding_add: the values of the separate steps, with and without dropout") {
  const Tensor weight = filled({rows, width}, f32, scattered),
               addend = filled({positions, width}, f32, [](int64_t i) { return scattered(i + 77); });
  const Tensor steps = ops::add(ops::embedding(some_ids(), weight), addend);
  CHECK(same_bits(ops::embedding_add(some_ids(), weight, addend), steps));
  CHECK(same_bits(ops::embedding_add(some_ids(), weight, addend, {.probability = 0.3, .key = 4}),
                  ops::dropout(steps, 0.3, 4)));
}

TEST_CASE("embedding_add: gradients are added to the buffers, with the same bits for any number of threads") {
  const Tensor dy = filled({batch, positions, width}, f32, scattered), ids = some_ids();
  const auto table = [&] {
    const Tensor sums = Tensor::zeros({rows, width}, f32);
    for (int pass = 0; pass < 2; ++pass) ops::embedding_add_backward(dy, ids, sums, {});
    return sums;
  };
  const auto addend = [&] {
    const Tensor sums = Tensor::zeros({positions, width}, f32);
    ops::embedding_add_backward(dy, ids, {}, sums);
    return sums;
  };
  CHECK(same_for_any_number_of_threads(table));
  CHECK(same_for_any_number_of_threads(addend));
  const Tensor to_rows = table(), to_positions = addend();
  for (int64_t c = 0; c < width; c += 23) {
    std::vector<double> row(rows), position(positions);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < positions; ++t) {
        const double g = element(dy, (b * positions + t) * width + c);
        row[static_cast<size_t>(element(ids, b * positions + t))] += 2 * g;
        position[static_cast<size_t>(t)] += g;
      }
    for (int64_t r = 0; r < rows; ++r)
      CHECK(element(to_rows, r * width + c) == doctest::Approx(row[static_cast<size_t>(r)]).epsilon(1e-5));
    for (int64_t t = 0; t < positions; ++t)
      CHECK(element(to_positions, t * width + c) ==
            doctest::Approx(position[static_cast<size_t>(t)]).epsilon(1e-5));
  }
}

TEST_CASE("embedding_add: refused arguments") {
  const Tensor weight = Tensor::zeros({3, 2}, f32), addend = Tensor::zeros({2, 2}, f32);
  CHECK_THROWS_WITH_AS(ops::embedding_add(Tensor::from<int64_t>({0, 3}, {1, 2}), weight, addend),
                       doctest::Contains("(0, 1)"), IndexError);
  CHECK_THROWS_AS(ops::embedding_add(Tensor::from<int64_t>({0, 1, 2}, {1, 3}), weight, addend), ShapeError);
  CHECK_THROWS_AS(
      ops::embedding_add_backward(Tensor::zeros({1, 2, 2}, f32), Tensor::from<int64_t>({0, 1}, {1, 2}),
                                  Tensor::zeros({3, 2}, f64), {}),
      DTypeError);
}
