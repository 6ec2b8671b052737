#include "data/data_loader.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "data/samplers/weighted_sampler.h"
#include "tensor/error.h"
#include "tensor/functions.h"
#include "tensor/operators.h"
#include "tensor/random/random_context.h"

using namespace tessera;
using data::DataLoader;

namespace {

/// Example i: x = (i, 10 i), y = i squared.
struct Squares : data::Dataset {
  explicit Squares(int64_t count) : n(count) {}
  int64_t size() const override { return n; }
  data::Example get(int64_t i) const override {
    return {Tensor::from({float(i), 10 * float(i)}), Tensor::scalar(i * i)};
  }
  int64_t n;
};

/// The y of the loader's next epoch, and the sizes of its batches.
struct Epoch {
  std::vector<int64_t> y, sizes;
  explicit Epoch(DataLoader& loader) {
    for (auto& [x, squares] : loader) {
      CHECK(x.dtype() == f32);
      CHECK(x.shape() == Shape{squares.size(0), 2});
      for (int64_t i = 0; i < squares.size(0); ++i) {
        const auto root = static_cast<int64_t>(x[i][0].item());
        CHECK(squares[i].item_i64() == root * root);
        y.push_back(squares[i].item_i64());
      }
      sizes.push_back(squares.size(0));
    }
  }
};

}  // namespace

TEST_CASE("data loader: an epoch in each pass, in order, with a smaller last batch") {
  DataLoader loader(Squares(10), {.batch_size = 4});
  CHECK(loader.size() == 3);
  for (int64_t pass = 0; pass < 2; ++pass) {
    CHECK(loader.epoch() == pass);
    const Epoch epoch(loader);
    CHECK(epoch.y == std::vector<int64_t>{0, 1, 4, 9, 16, 25, 36, 49, 64, 81});
    CHECK(epoch.sizes == std::vector<int64_t>{4, 4, 2});
  }
  DataLoader dropping(Squares(10), {.batch_size = 4, .drop_last = true});
  CHECK(Epoch(dropping).sizes == std::vector<int64_t>{4, 4});
  DataLoader one_by_one(Squares(3)), of_defaults(Squares(3), {});
  CHECK(Epoch(one_by_one).sizes == std::vector<int64_t>{1, 1, 1});
  CHECK(Epoch(of_defaults).sizes == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("data loader: shuffled orders are functions of seed and epoch, with or without workers") {
  DataLoader loader(Squares(50), 8, /*shuffle=*/true);
  const Epoch first(loader), second(loader);
  CHECK(first.y != second.y);
  for (const Epoch* epoch : {&first, &second})
    CHECK(std::set<int64_t>(epoch->y.begin(), epoch->y.end()).size() == 50);
  DataLoader workers(Squares(50), {.batch_size = 8, .shuffle = true, .workers = 2});
  CHECK(Epoch(workers).y == first.y);
  DataLoader resumed(Squares(50), {.batch_size = 8, .shuffle = true});
  resumed.set_epoch(1);
  CHECK(Epoch(resumed).y == second.y);
  DataLoader other(Squares(50), {.batch_size = 8, .shuffle = true, .seed = 1});
  CHECK(Epoch(other).y != first.y);
}

TEST_CASE("data loader: the same data with other options, from epoch 0 on") {
  DataLoader loader(Squares(10), {.batch_size = 4, .shuffle = true, .seed = 3});
  const std::vector<int64_t> first = Epoch(loader).y;
  DataLoader again = loader.with(loader.options());
  CHECK(again.epoch() == 0);
  CHECK(Epoch(again).y == first);
  DataLoader::Options options = loader.options();
  options.batch_size = 5;
  options.shuffle = false;
  DataLoader in_order = loader.with(options);
  CHECK(Epoch(in_order).sizes == std::vector<int64_t>{5, 5});
  CHECK(loader.options().batch_size == 4);
}

TEST_CASE("data loader: a pass that is left early does not change the next one") {
  DataLoader loader(Squares(50), {.batch_size = 8, .shuffle = true, .workers = 1}),
      full(Squares(50), 8, true);
  for (const data::Batch& batch : loader) {
    CHECK(batch.size() == 8);
    break;
  }
  full.set_epoch(1);
  CHECK(Epoch(loader).y == Epoch(full).y);
  int64_t pairs = 0;
  for (auto& [x, y] : loader)
    for (auto& [inner_x, inner_y] : full) pairs += y.size(0) * inner_y.size(0);
  CHECK(pairs == 2500);
}

TEST_CASE("data loader: the random context is that of the batch's step") {
  DataLoader loader(data::TensorDataset(Tensor::zeros({6, 2}), Tensor::zeros({6}, i64)), {.batch_size = 3});
  std::vector<int64_t> steps;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const data::Batch& batch : loader) {
      CHECK(batch.size() == 3);
      steps.push_back(random_context().step);
    }
  CHECK(steps == std::vector<int64_t>{0, 1, 2, 3});
}

TEST_CASE("data loader: the ranks share each batch") {
  std::vector<int64_t> all;
  DataLoader whole(Squares(8), {.batch_size = 4, .shuffle = true});
  DataLoader first(Squares(8), {.batch_size = 4, .shuffle = true, .rank = 0, .world_size = 2});
  DataLoader second(Squares(8), {.batch_size = 4, .shuffle = true, .rank = 1, .world_size = 2});
  const Epoch a(first), b(second);
  for (int64_t batch = 0; batch < 2; ++batch)
    for (const Epoch* rank : {&a, &b})
      for (int64_t i = 0; i < 2; ++i) all.push_back(rank->y[2 * batch + i]);
  CHECK(all == Epoch(whole).y);
}

TEST_CASE("data loader: a batch binds to two names, by value too") {
  data::Batch batch;
  batch.x = Tensor::zeros({2, 3});
  batch.y = Tensor::zeros({2}, i64);
  auto& [x, y] = batch;
  CHECK(x.shares_storage(batch.x));
  y = Tensor::zeros({4});
  CHECK(batch.y.numel() == 4);
  const auto [copy_of_x, copy_of_y] = batch;
  CHECK(copy_of_x.shares_storage(batch.x));
  CHECK(copy_of_y.numel() == 4);
}

TEST_CASE("data loader: options and tensors that do not fit are refused") {
  CHECK_THROWS_WITH_AS(DataLoader(Squares(4), {.batch_size = 0}),
                       "DataLoader: expected a batch_size of at least 1, got 0", ConfigError);
  CHECK_THROWS_WITH_AS(DataLoader(std::shared_ptr<const data::Dataset>(), {}),
                       "DataLoader: expected a dataset, got a null pointer", ConfigError);
  CHECK_THROWS_WITH_AS(DataLoader(Squares(4), {.workers = -1}),
                       "DataLoader: expected at least 0 workers, got -1", ConfigError);
  CHECK_THROWS_AS(DataLoader(Squares(0), 4), DataError);
  DataLoader loader(Squares(4), 2);
  loader.set_epoch(-1);
  CHECK_THROWS_WITH_AS(loader.begin(), "DataLoader: expected an epoch of at least 0, got -1", ConfigError);
  CHECK_THROWS_WITH_AS(data::TensorDataset(Tensor::zeros({3, 2}), Tensor::zeros({2})),
                       "TensorDataset: expected x and y with the same first extent, got (3, 2) f32 on cpu "
                       "and (2,) f32 on cpu",
                       ShapeError);
}

TEST_CASE("data loader: random numbers drawn by a dataset depend on seed, epoch and example alone") {
  struct Noisy : data::Dataset {
    int64_t size() const override { return 12; }
    data::Example get(int64_t i) const override { return {{"x", Tensor::scalar(i)}, {"noise", rand({3})}}; }
  };
  const auto noise_of = [](data::DataLoader& loader) {
    std::map<int64_t, Tensor> noise;
    for (const data::Batch& batch : loader)
      for (int64_t row = 0; row < batch.size(); ++row) noise[batch.x[row].item_i64()] = batch["noise"][row];
    return noise;
  };
  DataLoader reference(Noisy(), {.batch_size = 12});
  const auto first = noise_of(reference), second = noise_of(reference);
  CHECK(!first.at(0).array_equal(first.at(1)));
  CHECK(!first.at(0).array_equal(second.at(0)));
  manual_seed(9);
  const Tensor own = rand({2});
  manual_seed(9);
  for (const int rank : {0, 1}) {
    DataLoader other(Noisy(),
                     {.batch_size = 4, .shuffle = true, .workers = rank, .rank = rank, .world_size = 2});
    const auto shuffled = noise_of(other);
    CHECK(shuffled.size() == 6);
    for (const auto& [i, noise] : shuffled) CHECK(noise.array_equal(first.at(i)));
  }
  CHECK(rand({2}).array_equal(own));
}

TEST_CASE("data loader: a sampler gives the order") {
  const std::vector<double> weights = {0, 1, 0, 0, 3};
  DataLoader loader(Squares(5),
                    {.batch_size = 2, .sampler = std::make_shared<data::WeightedSampler>(weights)});
  const Epoch epoch(loader);
  CHECK(epoch.y.size() == 5);
  for (const int64_t y : epoch.y) CHECK((y == 1 || y == 16));
  CHECK_THROWS_WITH_AS(
      DataLoader(Squares(5), {.shuffle = true, .sampler = std::make_shared<data::SequentialSampler>(5)}),
      "DataLoader: expected either shuffle or a sampler, which gives the order, got both", ConfigError);
  CHECK_THROWS_AS(DataLoader(Squares(5), {.shuffle_buffer = 4}), ConfigError);
}

TEST_CASE("tensor dataset: any fields") {
  data::TensorDataset columns(
      data::Record{{"tokens", Tensor::zeros({3, 2})}, {"label", Tensor::zeros({3}, i64)}});
  CHECK(columns.size() == 3);
  CHECK(columns.get(1)["tokens"].shape() == Shape{2});
  CHECK(columns.get(1)["label"].ndim() == 0);
  CHECK_THROWS_AS(data::TensorDataset{data::Record{}}, ValueError);
  CHECK_THROWS_AS(data::TensorDataset(data::Record{{"a", Tensor::scalar(1.0f)}}), ShapeError);
}

TEST_CASE("data loader: the random context of the last batch ends with the loop") {
  for (const bool left_early : {false, true}) {
    DataLoader loader(Squares(4), {.batch_size = 4});
    for (const data::Batch& batch : loader) {
      CHECK(random_context().samples.size() == static_cast<size_t>(batch.size()));
      if (left_early) break;
    }
    CHECK(random_context().samples.empty());
  }
}
