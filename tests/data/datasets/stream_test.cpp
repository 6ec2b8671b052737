#include "data/datasets/stream.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "data/data_loader.h"
#include "tensor/error.h"
#include "tensor/functions.h"
#include "tensor/random/random_context.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::StreamBatches;

namespace {

/// The integers from 1000 `epoch` on, `count` of them; a random number goes with each.
struct Counting : data::StreamDataset {
  explicit Counting(int64_t n) : count(n) {}
  struct Stream : data::ExampleStream {
    Stream(int64_t first, int64_t n, const Counting& of) : next_value(first), end(first + n), source(of) {}
    std::optional<data::Example> next() override {
      if (next_value == end) return std::nullopt;
      if (next_value == source.fails_at) throw DataError("line 7 is not a number");
      return data::Example{{"x", Tensor::scalar(next_value++)}, {"random", rand({2})}};
    }
    int64_t next_value, end;
    const Counting& source;
  };
  std::unique_ptr<data::ExampleStream> open(int64_t epoch) const override {
    ++opened;
    return std::make_unique<Stream>(1000 * epoch, count, *this);
  }
  std::string name() const override { return "counting"; }
  int64_t count;
  mutable int opened = 0;
  int64_t fails_at = -1;
};

std::vector<int64_t> values(const Tensor& x) {
  return {x.data<int64_t>(), x.data<int64_t>() + x.numel()};
}

std::vector<std::vector<int64_t>> all_of(const data::BatchSource& source) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t step = 0;; ++step) {
    const std::optional<data::Batch> batch = source.try_batch(step);
    if (!batch) return all;
    CHECK(batch->step == step);
    all.push_back(values(batch->x));
  }
}

}  // namespace

TEST_CASE("stream: batches in order, a smaller last one or none") {
  const auto stream = std::make_shared<Counting>(7);
  CHECK(all_of(StreamBatches(stream, {.batch_size = 3})) ==
        std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(all_of(StreamBatches(stream, {.batch_size = 3, .drop_last = true})) ==
        std::vector<std::vector<int64_t>>{{0, 1, 2}, {3, 4, 5}});
  CHECK(all_of(StreamBatches(stream, {.batch_size = 4, .first_epoch = 2, .epochs = 2})) ==
        std::vector<std::vector<int64_t>>{
            {2000, 2001, 2002, 2003}, {2004, 2005, 2006}, {3000, 3001, 3002, 3003}, {3004, 3005, 3006}});
  CHECK(all_of(StreamBatches(std::make_shared<Counting>(6), {.batch_size = 3})).size() == 2);
}

TEST_CASE("stream: the batch of a step is the same in any order of calls") {
  const auto stream = std::make_shared<Counting>(50);
  for (const int64_t buffer : {0, 20}) {
    const StreamBatches::Options options{.batch_size = 4, .shuffle_buffer = buffer, .epochs = -1};
    const StreamBatches in_order(stream, options);
    std::vector<std::vector<int64_t>> expected;
    std::vector<Tensor> random;
    for (int64_t step = 0; step < 120; ++step) {
      const data::Batch batch = in_order.batch(step);
      expected.push_back(values(batch.x));
      random.push_back(batch["random"]);
    }
    const StreamBatches mixed(stream, options);
    for (const int64_t step : {5, 3, 4, 119, 0, 14, 13, 12, 26, 27, 25, 119, 1}) {
      CAPTURE(step);
      const data::Batch batch = mixed.batch(step);
      CHECK(values(batch.x) == expected[static_cast<size_t>(step)]);
      CHECK(batch["random"].array_equal(random[static_cast<size_t>(step)]));
    }
  }
}

TEST_CASE("stream: every example once an epoch and once in a mean, on any number of ranks") {
  for (const int64_t buffer : {0, 5}) {
    const auto stream = std::make_shared<Counting>(10);
    const StreamBatches whole(stream, {.batch_size = 8, .shuffle_buffer = buffer, .epochs = 2});
    for (const int world : {2, 4, 8}) {
      CAPTURE(world);
      for (int64_t step = 0; step < 4; ++step) {
        const data::Batch expected = whole.batch(step);
        std::vector<int64_t> together, samples;
        std::set<int64_t> rows;
        double weights = 0;
        for (int rank = 0; rank < world; ++rank) {
          const StreamBatches share(
              stream,
              {.batch_size = 8, .shuffle_buffer = buffer, .epochs = 2, .rank = rank, .world_size = world});
          const data::Batch batch = share.batch(step);
          REQUIRE(batch.size() == batch.x.size(0));
          rows.insert(batch.size());
          weights += batch.rank_weight();
          for (int64_t row = 0; row < batch.size(); ++row) {
            if (batch.items[static_cast<size_t>(row)] < 0) continue;
            together.push_back(values(batch.x)[static_cast<size_t>(row)]);
            samples.push_back(batch.samples[static_cast<size_t>(row)]);
          }
          CHECK(!share.try_batch(4));
        }
        CHECK(together == values(expected.x));
        CHECK(samples == expected.samples);
        CHECK(rows.size() == 1);
        CHECK(weights == doctest::Approx(world));
      }
    }
  }
}

TEST_CASE("stream: ids of padded rows are skipped by losses") {
  struct Pairs : Counting {
    using Counting::Counting;
  };
  const auto stream = std::make_shared<Pairs>(1);
  const StreamBatches second(stream, {.batch_size = 2, .targets = {"x"}, .rank = 1, .world_size = 2});
  const data::Batch batch = second.batch(0);
  CHECK(batch.items == std::vector<int64_t>{-1});
  CHECK(batch.rank_weight() == 0);
  CHECK(values(batch.x) == std::vector<int64_t>{data::ignored_target});
}

TEST_CASE("stream: a shuffle buffer mixes the order, another in each epoch") {
  const auto stream = std::make_shared<Counting>(100);
  const auto shuffled = all_of(StreamBatches(stream, {.batch_size = 100, .shuffle_buffer = 30, .epochs = 2}));
  std::vector<int64_t> first = shuffled[0], second = shuffled[1];
  for (int64_t& value : second) value -= 1000;
  CHECK(first != second);
  for (const std::vector<int64_t>& epoch : {first, second}) {
    // The example at a position has entered the buffer by then.
    for (int64_t i = 0; i < 100; ++i) CHECK(epoch[static_cast<size_t>(i)] < i + 30);
    std::vector<int64_t> sorted = epoch;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 100; ++i) CHECK(sorted[static_cast<size_t>(i)] == i);
    CHECK(epoch != sorted);
  }
}

TEST_CASE("stream: a data loader's passes are epochs, with workers too") {
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    data::DataLoader loader(Counting(5), {.batch_size = 2, .workers = workers});
    CHECK(loader.size() == -1);
    std::vector<uint64_t> seeds;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> seen;
      for (const data::Batch& batch : loader)
        for (const int64_t value : values(batch.x)) seen.push_back(value - 1000 * epoch);
      CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4});
      seeds.push_back(random_context().seed);
    }
    CHECK(std::set<uint64_t>(seeds.begin(), seeds.end()).size() == 3);
  }
}

TEST_CASE("stream: reading does not disturb the thread's own random numbers") {
  const StreamBatches batches(std::make_shared<Counting>(9), {.batch_size = 3, .rank = 1, .world_size = 3});
  manual_seed(3);
  const Tensor expected = rand({4});
  manual_seed(3);
  (void)batches.batch(2);
  CHECK(rand({4}).array_equal(expected));
}

TEST_CASE("stream: an error in the stream comes at its step, and a later call reads again") {
  const auto stream = std::make_shared<Counting>(9);
  stream->fails_at = 4;
  const StreamBatches batches(stream, {.batch_size = 3});
  CHECK(values(batches.batch(0).x) == std::vector<int64_t>{0, 1, 2});
  for (int call = 0; call < 2; ++call)
    CHECK_THROWS_WITH_AS(batches.batch(1), "line 7 is not a number", DataError);
  stream->fails_at = -1;
  CHECK(values(batches.batch(1).x) == std::vector<int64_t>{3, 4, 5});
}

TEST_CASE("stream: options, streams and steps that do not fit are errors") {
  const auto stream = std::make_shared<Counting>(4);
  CHECK_THROWS_AS(StreamBatches(nullptr, {}), ConfigError);
  CHECK_THROWS_AS(StreamBatches(stream, {.batch_size = 3, .world_size = 2}), ConfigError);
  CHECK_THROWS_AS(StreamBatches(stream, {.shuffle_buffer = -1}), ConfigError);
  CHECK_THROWS_AS(StreamBatches(stream, {.epochs = -2}), ConfigError);
  CHECK_THROWS_AS(StreamBatches(stream, {.collate = nullptr}), ConfigError);
  CHECK(message_of<DataError>([&] { StreamBatches(stream, {}).batch(4); }) ==
        "counting: no batch of step 4, the stream ended before it");
  CHECK(contains(message_of<DataError>([&] { StreamBatches(stream, {}).batch(-1); }), "at least 0, got -1"));
  const StreamBatches short_one(stream, {.batch_size = 8, .drop_last = true, .epochs = -1});
  for (int call = 0; call < 2; ++call)
    CHECK(message_of<DataError>([&] { short_one.batch(0); }) ==
          "counting: epoch 0 has no batch of 8 examples; use a smaller batch_size, or drop_last = false");
  CHECK_THROWS_AS(StreamBatches(std::make_shared<Counting>(0), {}).batch(0), DataError);
  CHECK_THROWS_AS(data::DataLoader(Counting(3), {.shuffle = true}), ConfigError);
  CHECK_THROWS_AS(data::DataLoader(Counting(3), {.batch_size = 0}), ConfigError);
  CHECK_THROWS_AS(data::DataLoader(std::shared_ptr<const data::StreamDataset>(), {}), ConfigError);
}
