#include "nn/layers/embedding_bag.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/debug/gradcheck.h"
#include "autograd/functions/reduction.h"
#include "nn/materialize.h"
#include "tensor/ops/creation/creation.h"

using namespace tessera;

namespace {

std::vector<float> values(const Variable& x) {
  const Tensor t = x.value().contiguous();
  return {t.data<float>(), t.data<float>() + t.numel()};
}

}  // namespace

TEST_CASE("embedding: the row of padding starts at 0, in any shard, and gets no gradient") {
  nn::Embedding table({.count = 4, .width = 3, .padding_idx = 2, .scale = 2});
  nn::materialize(table, cpu(), 1);
  const std::vector<float> weight = values(table.weight);
  for (int64_t i = 0; i < 12; ++i) CHECK((weight[i] == 0) == (i / 3 == 2));
  // A shard has the same values as the full table.
  const Tensor part = Tensor::empty({5}, f32);
  table.o.initializer().fill(part, init::parameter_key(1, "weight"), {4, 3}, 4);
  for (int64_t i = 0; i < 5; ++i) CHECK(part.data<float>()[i] == weight[4 + i]);
  const Variable y = table(Tensor::from<int64_t>({2, 0, 2}));
  for (int64_t c = 0; c < 3; ++c) CHECK(values(y)[3 + c] == 2 * weight[c]);
  sum(y).backward();
  CHECK(values(table.weight.grad()) == std::vector<float>{2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(nn::Embedding({.count = 4, .width = 3, .padding_idx = 4}), ConfigError);
  CHECK_THROWS_AS(table.forward_add(Tensor::from({int64_t{0}}, {1, 1}), Variable(Tensor::zeros({1, 3}))),
                  ConfigError);
}

TEST_CASE("embedding bag: the layer computes the function, and names itself in errors") {
  nn::EmbeddingBag bag({.count = 5, .width = 2, .mode = BagMode::sum, .padding_idx = 1});
  nn::materialize(bag, cpu(), 1);
  const std::vector<float> w = values(bag.weight);
  CHECK(w[2] == 0);
  const std::vector<float> y =
      values(bag(Tensor::from<int64_t>({4, 1, 3, 0}), Tensor::from<int64_t>({0, 3, 3})));
  CHECK(y[0] == w[8] + w[6]);
  CHECK(y[2] == 0);  // an empty bag
  CHECK(y[5] == w[1]);
  CHECK_THROWS_WITH_AS(bag(Tensor::from<int64_t>({5}), Tensor::from<int64_t>({0})),
                       doctest::Contains("nn::EmbeddingBag ''"), IndexError);
}

TEST_CASE("embedding bag: offsets and weights of samples that do not fit are errors") {
  const Variable table = Tensor::zeros({5, 2}, f32);
  const Tensor ids = Tensor::from<int64_t>({0, 1, 2});
  const auto bags = [&](std::initializer_list<int64_t> offsets, EmbeddingBagOptions options = {}) {
    return embedding_bag(ids, table, Tensor::from(offsets), options);
  };
  CHECK_THROWS_WITH_AS(bags({1, 2}), doctest::Contains("first offset to be 0, got 1"), ValueError);
  CHECK_THROWS_WITH_AS(bags({0, 2, 1}), doctest::Contains("offset 1 of bag 2 is below 2"), ValueError);
  CHECK_THROWS_WITH_AS(bags({0, 4}), doctest::Contains("passes the number of ids, 3"), ValueError);
  CHECK_THROWS_WITH_AS(bags({0, 2}, {.include_last_offset = true}),
                       doctest::Contains("last offset is 2, expected the number of ids, 3"), ValueError);
  CHECK_THROWS_AS(bags({0}, {.padding_idx = 5}), ValueError);
  CHECK_THROWS_AS(embedding_bag(ids, table), ValueError);
  CHECK_THROWS_AS(embedding_bag(Tensor::from<int64_t>({5}), table, Tensor::from<int64_t>({0})), IndexError);
  const Variable factors = Tensor::zeros({3}, f32);
  CHECK_THROWS_AS(embedding_bag(ids, table, Tensor::from<int64_t>({0}), {.mode = BagMode::max}, factors),
                  ValueError);
  CHECK_THROWS_AS(embedding_bag(ids, table, Tensor::from<int64_t>({0}), {.mode = BagMode::sum},
                                Variable(Tensor::zeros({2}, f32))),
                  ShapeError);
}
