#include "data/samplers/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "data/datasets/dataset_batches.h"
#include "data/samplers/permutation.h"
#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::DistributedSampler;

namespace {

std::vector<int64_t> epoch_of(const data::Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < sampler.size(); ++i) order.push_back(sampler.at(epoch, i));
  return order;
}

/// Example i: x = (i, 10 i), y = i squared.
struct Squares : data::Dataset {
  explicit Squares(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  data::Example get(int64_t i) const override {
    return {Tensor::from({float(i), 10 * float(i)}), Tensor::scalar(i * i)};
  }
  int64_t n_;
};

}  // namespace

TEST_CASE("permutation: each entry once, at every size") {
  for (int64_t size = 0; size < 70; ++size) {
    const data::Permutation permutation(size, 11, size);
    std::vector<int64_t> entries, all(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) entries.push_back(permutation[i]);
    std::sort(entries.begin(), entries.end());
    std::iota(all.begin(), all.end(), 0);
    CHECK(entries == all);
  }
  const data::Permutation large(int64_t{1} << 40, 11, 0);
  CHECK(large[0] != large[1]);
  CHECK(contains(message_of<IndexError>([] { data::Permutation(3, 0, 0)[3]; }),
                 "expected an index in [0, 3), got 3"));
}

TEST_CASE("permutation: all orders are equally likely") {
  // 24 orders of 4, over 24,000 epochs. Chi-square of 23 degrees of freedom: above 49.7 once in 1,000.
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) ++seen[epoch_of(data::RandomSampler(4, 3), epoch)];
  CHECK(seen.size() == 24);
  double chi_square = 0;
  for (const auto& [order, n] : seen) chi_square += (n - 1000.0) * (n - 1000.0) / 1000.0;
  CHECK(chi_square < 49.7);
}

TEST_CASE("permutation: entries of a large one are spread evenly") {
  // The entries of the first quarter of 1,000 indices, in 10 cells, over 100 epochs: 9 degrees of freedom
  // (27.9).
  std::vector<double> cells(10);
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const data::Permutation permutation(1000, 5, epoch);
    for (int64_t i = 0; i < 250; ++i) cells[static_cast<size_t>(permutation[i] / 100)] += 1;
  }
  double chi_square = 0;
  for (const double n : cells) chi_square += (n - 2500) * (n - 2500) / 2500;
  CHECK(chi_square < 27.9);
}

TEST_CASE("samplers: sequential and random orders by seed and epoch") {
  CHECK(epoch_of(data::SequentialSampler(4), 9) == std::vector<int64_t>{0, 1, 2, 3});
  const data::RandomSampler random(50, 1);
  CHECK(epoch_of(random, 0) == epoch_of(data::RandomSampler(50, 1), 0));
  CHECK(epoch_of(random, 0) != epoch_of(random, 1));
  CHECK(epoch_of(random, 0) != epoch_of(data::RandomSampler(50, 2), 0));
  data::RandomSampler by_hand(50, 1);
  by_hand.set_epoch(1);
  CHECK(by_hand[7] == random.at(1, 7));
  CHECK(contains(message_of<IndexError>([&] { random.at(0, 50); }), "expected an index in [0, 50), got 50"));
}

TEST_CASE("distributed sampler: the shares of all ranks make the same batches for every world size") {
  const auto order = std::make_shared<data::RandomSampler>(31, 4);
  for (const int64_t batch : {6, 12})
    for (const int world : {1, 2, 3, 6}) {
      std::vector<std::vector<int64_t>> together(static_cast<size_t>((31 + batch - 1) / batch));
      int64_t padded = 0;
      for (int rank = 0; rank < world; ++rank) {
        const DistributedSampler sampler(order, {.rank = rank, .world_size = world, .batch_size = batch});
        CHECK(sampler.batches() == std::ssize(together));
        for (int64_t b = 0, i = 0; b < sampler.batches(); ++b)
          for (int64_t row = 0; row < sampler.share(b).count; ++row, ++i) {
            const int64_t item = sampler.at(2, i);
            padded += item < 0;
            if (item >= 0) together[static_cast<size_t>(b)].push_back(item);
          }
        CHECK_THROWS_AS(sampler.at(2, sampler.size()), IndexError);
      }
      // Each example once, an incomplete last batch smaller.
      int64_t seen = 0;
      for (const std::vector<int64_t>& items : together)
        for (const int64_t item : items) CHECK(item == order->at(2, seen++));
      CHECK(seen == 31);
      CHECK(padded < world);
    }
}

TEST_CASE(
    "distributed sampler: an incomplete last batch is dropped, or smaller and padded to the world size") {
  const auto order = std::make_shared<data::SequentialSampler>(10);
  const DistributedSampler dropped(order, {.rank = 1, .world_size = 2, .batch_size = 4, .drop_last = true});
  CHECK(epoch_of(dropped, 0) == std::vector<int64_t>{2, 3, 6, 7});
  const DistributedSampler kept(order, {.rank = 1, .world_size = 2, .batch_size = 4});
  CHECK(epoch_of(kept, 0) == std::vector<int64_t>{2, 3, 6, 7, 9});
  const DistributedSampler one_each(order, {.rank = 2, .world_size = 3});
  CHECK(epoch_of(one_each, 0) == std::vector<int64_t>{2, 5, 8, -1});
  const DistributedSampler huge(order, {.batch_size = std::numeric_limits<int64_t>::max()});
  CHECK(epoch_of(huge, 0) == epoch_of(*order, 0));
  CHECK(contains(
      message_of<DataError>([&] { DistributedSampler(order, {.batch_size = 12, .drop_last = true}); }),
      "10 examples give no batch of 12"));
}

TEST_CASE("dataset: every example counts once in a mean over an epoch, on any number of ranks") {
  const auto squares = std::make_shared<Squares>(10);
  for (const int world : {1, 2, 4}) {
    CAPTURE(world);
    double sum = 0, trained = 0;
    int64_t count = 0, rows = 0;
    for (int rank = 0; rank < world; ++rank) {
      const data::DatasetBatches batches(
          squares,
          {.batch_size = 4, .shuffle = false, .drop_last = false, .rank = rank, .world_size = world});
      REQUIRE(batches.batches_per_epoch() == 3);
      for (int64_t step = 3; step < 6; ++step) {
        const data::Batch batch = batches.batch(step);
        REQUIRE(batch.size() == batch.x.size(0));
        rows += batch.size();
        double batch_sum = 0;
        const Tensor weights = batch.weights();
        for (int64_t row = 0; row < batch.size(); ++row) {
          const bool padding = batch.items[row] < 0;
          CHECK(weights.data<float>()[row] == (padding ? 0.0f : 1.0f));
          if (padding) CHECK(batch.y.data<int64_t>()[row] == data::ignored_target);
          if (!padding) batch_sum += static_cast<double>(batch.y.data<int64_t>()[row]);
        }
        count += batch.unpadded_size();
        sum += batch_sum;
        if (step == 5 && batch.unpadded_size() > 0)
          trained += batch.rank_weight() * batch_sum / static_cast<double>(batch.unpadded_size()) / world;
        if (step == 5 && batch.size() == 2)
          CHECK(batch.micro_batch(0, 1).rank_weight() + batch.micro_batch(1, 1).rank_weight() ==
                batch.rank_weight());
        if (step < 5) CHECK(batch.rank_weight() == 1.0);
      }
    }
    CHECK(count == 10);
    CHECK(sum / static_cast<double>(count) == 28.5);
    CHECK(trained == (64 + 81) / 2.0);
    CHECK(rows == (world == 4 ? 12 : 10));
  }
}

TEST_CASE("dataset: examples are stacked into batches, epoch after epoch") {
  const auto squares = std::make_shared<Squares>(5);
  const data::DatasetBatches batches(squares, {.batch_size = 2, .shuffle = false});
  CHECK(batches.batches_per_epoch() == 2);
  const data::Batch batch = batches.batch(3);
  CHECK(batch.x.shape() == Shape{2, 2});
  CHECK(batch.y.shape() == Shape{2});
  CHECK(batch.items == std::vector<int64_t>{2, 3});
  CHECK(batch.x.data<float>()[3] == 30);
  CHECK(batch.y.data<int64_t>()[1] == 9);
}

TEST_CASE("dataset: shuffled batches of all ranks hold each example once an epoch") {
  const auto squares = std::make_shared<Squares>(12);
  std::vector<int64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    const data::DatasetBatches batches(squares, {.batch_size = 6, .seed = 8, .rank = rank, .world_size = 3});
    for (const int64_t step : {4, 5})  // epoch 2
      for (const int64_t item : batches.batch(step).items) seen.push_back(item);
    CHECK(batches.batch(4).samples == std::vector<int64_t>{2 * rank, 2 * rank + 1});
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("dataset: examples of different shapes or types need a user-defined collate") {
  struct Uneven : data::Dataset {
    int64_t size() const override { return 2; }
    data::Example get(int64_t i) const override {
      return {Tensor::zeros({i + 1}, f32), i == 0 ? Tensor::scalar(1.0f) : Tensor::scalar(int64_t{1})};
    }
  };
  const auto uneven = std::make_shared<Uneven>();
  const data::DatasetBatches batches(uneven, {.batch_size = 2, .shuffle = false});
  CHECK_THROWS_AS(batches.batch(0), ShapeError);
  const data::DatasetBatches collated(
      uneven,
      {.batch_size = 2, .shuffle = false, .collate = [](std::span<const data::Example> examples) {
         return data::Example{Tensor::scalar(static_cast<int64_t>(examples.size())), Tensor::scalar(0.0f)};
       }});
  CHECK(collated.batch(0).x.item() == 2);
  const std::vector<data::Example> mixed = {{Tensor::scalar(1.0f), Tensor::scalar(1.0f)},
                                            {Tensor::scalar(1.0f), Tensor::scalar(int64_t{1})}};
  CHECK_THROWS_AS(data::stack_examples(mixed), DTypeError);
}
