#include "data/text/windows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::Batch;
using data::ConsecutiveWindows;
using data::RandomWindows;

namespace {

/// 100, 101, 102, ...
data::Tokens counting(int64_t size) {
  std::vector<uint16_t> ids(static_cast<size_t>(size));
  std::iota(ids.begin(), ids.end(), uint16_t{100});
  return {std::move(ids), "counting"};
}

std::vector<int64_t> values(const Tensor& tensor) {
  const int64_t* first = tensor.data<int64_t>();
  return {first, first + tensor.numel()};
}

}  // namespace

TEST_CASE("random windows: x is consecutive tokens from the offset, y the same shifted by one") {
  const RandomWindows windows(counting(1000), {.block = 8, .batch_size = 5});
  const Batch batch = windows.batch(3);
  CHECK(batch.x.shape() == Shape{5, 8});
  CHECK(batch.x.dtype() == i64);
  CHECK(batch.step == 3);
  CHECK(batch.samples == std::vector<int64_t>{0, 1, 2, 3, 4});
  for (int64_t b = 0; b < 5; ++b)
    for (int64_t t = 0; t < 8; ++t) {
      CHECK(batch.x.data<int64_t>()[b * 8 + t] == 100 + batch.items[static_cast<size_t>(b)] + t);
      CHECK(batch.y.data<int64_t>()[b * 8 + t] == 100 + batch.items[static_cast<size_t>(b)] + t + 1);
    }
}

TEST_CASE("random windows: every offset that leaves a target is equally likely, and no other occurs") {
  // 10 tokens and a block of 4: starts 0 .. 5. Chi-square of 5 degrees of freedom: above 20.5 once in 1,000.
  const RandomWindows windows(counting(10), {.block = 4, .batch_size = 60});
  std::vector<double> seen(6);
  for (int64_t step = 0; step < 100; ++step)
    for (const int64_t start : windows.batch(step).items) seen.at(static_cast<size_t>(start)) += 1;
  double chi_square = 0;
  for (const double n : seen) chi_square += (n - 1000) * (n - 1000) / 1000;
  CHECK(chi_square < 20.5);
}

TEST_CASE("random windows: a function of seed, step, sample and stream") {
  CHECK(data::window_start(1, 2, 3, 1'000'000'007) == data::window_start(1, 2, 3, 1'000'000'007));
  const int64_t start = data::window_start(1, 2, 3, 1'000'000'007);
  CHECK(start != data::window_start(2, 2, 3, 1'000'000'007));
  CHECK(start != data::window_start(1, 3, 3, 1'000'000'007));
  CHECK(start != data::window_start(1, 2, 4, 1'000'000'007));
  CHECK(start != data::window_start(1, 2, 3, 1'000'000'007, data::WindowStream::estimate));
}

TEST_CASE("random windows: the batch of all ranks is the same on any number of ranks") {
  const RandomWindows all(counting(5000), {.block = 16, .batch_size = 12, .seed = 7});
  for (const int world : {1, 2, 3, 4, 12}) {
    std::vector<int64_t> x, samples;
    for (int rank = 0; rank < world; ++rank) {
      const RandomWindows share(
          counting(5000), {.block = 16, .batch_size = 12, .seed = 7, .rank = rank, .world_size = world});
      const Batch batch = share.batch(5);
      CHECK(batch.size() == 12 / world);
      for (const int64_t n : values(batch.x)) x.push_back(n);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    }
    CHECK(x == values(all.batch(5).x));
    CHECK(samples == all.batch(5).samples);
  }
}

TEST_CASE("random windows: a text just long enough has one window; a shorter one is refused") {
  const RandomWindows windows(counting(9), {.block = 8, .batch_size = 3});
  CHECK(windows.batch(0).items == std::vector<int64_t>{0, 0, 0});
  CHECK(message_of<DataError>([] { RandomWindows(counting(8), {.block = 8}); }) ==
        "counting: 8 tokens, a block of 8 and the token after it need 9");
}

TEST_CASE("windows: options out of range are refused") {
  const auto problem = [](const RandomWindows::Options& options) {
    return message_of<ConfigError>([&] { RandomWindows(counting(100), options); });
  };
  CHECK(contains(problem({.block = 0}), "block size 0"));
  CHECK(contains(problem({.batch_size = 0}), "batch size 0"));
  CHECK(contains(problem({.batch_size = 10, .rank = 0, .world_size = 4}),
                 "10 does not divide evenly among 4 ranks"));
  CHECK(contains(problem({.batch_size = 8, .rank = 4, .world_size = 4}), "rank 4 of 4"));
  CHECK(contains(
      message_of<ConfigError>([] { ConsecutiveWindows(counting(9), {.batch_size = 2, .world_size = 2}); }),
      "must be padded"));
}

TEST_CASE("batch: micro-batches are views with their samples") {
  const RandomWindows windows(counting(1000), {.block = 4, .batch_size = 6, .rank = 1, .world_size = 2});
  const Batch batch = windows.batch(0), micro = batch.micro_batch(1, 2);
  CHECK(micro.x.shares_storage(batch.x));
  CHECK(micro.x.shape() == Shape{2, 4});
  CHECK(micro.samples == std::vector<int64_t>{4, 5});
  CHECK(micro.y.data<int64_t>()[0] == 100 + batch.items[1] + 1);
  CHECK(contains(message_of<IndexError>([&] { batch.micro_batch(2, 2); }),
                 "expected samples in [0, 3), got [2, 4)"));
}

TEST_CASE("consecutive windows: every token except the first is a target once, for all sizes") {
  for (int64_t size = 2; size < 40; ++size)
    for (const int64_t block : {1, 3, 8, 50})
      for (const bool pad : {false, true}) {
        const ConsecutiveWindows windows(counting(size), {.block = block, .batch_size = 2, .pad = pad});
        std::vector<int64_t> targets;
        int64_t counted = 0;
        for (int64_t step = 0; step < windows.steps(); ++step) {
          const Batch batch = windows.batch(step);
          if (pad) CHECK(batch.y.shape() == Shape{2, block});
          counted += windows.targets(batch);
          const std::vector<int64_t> x = values(batch.x), y = values(batch.y);
          for (size_t i = 0; i < y.size(); ++i) {
            if (y[i] == ConsecutiveWindows::ignored) continue;
            targets.push_back(y[i]);
            CHECK(x[i] + 1 == y[i]);
          }
        }
        std::vector<int64_t> expected(static_cast<size_t>(size - 1));
        std::iota(expected.begin(), expected.end(), 101);
        CHECK(targets == expected);
        CHECK(counted == windows.targets());
      }
}

TEST_CASE("consecutive windows: all ranks take the same number of steps and share the windows") {
  // 21 targets in blocks of 4: windows 0, 4, 8, 12, 16 and a last one of 1 target; 4 a step.
  std::vector<int64_t> starts;
  for (int rank = 0; rank < 2; ++rank) {
    const ConsecutiveWindows windows(
        counting(22), {.block = 4, .batch_size = 4, .pad = true, .rank = rank, .world_size = 2});
    CHECK(windows.steps() == 2);
    for (int64_t step = 0; step < 2; ++step)
      for (const int64_t item : windows.batch(step).items) starts.push_back(item);
  }
  CHECK(starts == std::vector<int64_t>{0, 4, 16, 20, 8, 12, -1, -1});
}

TEST_CASE("consecutive windows: a text without a target is refused, and so is a step out of range") {
  CHECK(contains(message_of<DataError>([] { ConsecutiveWindows(counting(1), {}); }), "1 tokens, at least 2"));
  const ConsecutiveWindows windows(counting(10), {.block = 4});
  CHECK(windows.steps() == 2);
  CHECK(contains(message_of<DataError>([&] { windows.batch(2); }), "expected a step below 2, got 2"));
  CHECK(contains(message_of<DataError>([&] { windows.batch(-1); }), "expected a step of at least 0, got -1"));
}
