#include "data/loader.h"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>

#include "data/text/windows.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/random/random_context.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace std::chrono_literals;
using data::Batch;
using data::Loader;

namespace {

/// Batches with the step as x. Throws at step `failing`, blocks at step `waiting`, and counts its batches.
struct Steps : data::BatchSource {
  int64_t count = -1, failing = -1, waiting = -1;
  std::shared_future<void> gate;
  mutable std::atomic<int64_t> made{0}, furthest{-1};
  mutable std::atomic<bool> waits{false};

  Batch batch(int64_t step) const override {
    if (step == failing) throw std::runtime_error("no example " + std::to_string(step));
    if (step == waiting) {
      waits = true;
      waits.notify_one();
      gate.wait();
    }
    Batch batch;
    batch.x = Tensor::scalar(step);
    batch.samples = {2 * step, 2 * step + 1};
    batch.step = step;
    ++made;
    int64_t before = furthest;
    while (before < step && !furthest.compare_exchange_weak(before, step)) {
    }
    return batch;
  }
  int64_t steps() const override { return count; }
  std::string name() const override { return "steps"; }
};

std::shared_ptr<Steps> steps(int64_t count) {
  auto source = std::make_shared<Steps>();
  source->count = count;
  return source;
}

std::vector<int64_t> all_of(Loader& loader) {
  std::vector<int64_t> seen;
  for (const Batch& batch : loader) seen.push_back(batch.x.item_i64());
  return seen;
}

}  // namespace

TEST_CASE("loader: all batches in order, with any number of workers") {
  std::vector<int64_t> expected(100);
  for (int64_t i = 0; i < 100; ++i) expected[static_cast<size_t>(i)] = i;
  for (const int workers : {0, 1, 2, 5})
    for (const int64_t prefetch : {1, 3, 200}) {
      Loader loader(steps(100), {.workers = workers, .prefetch = prefetch});
      CHECK(all_of(loader) == expected);
      CHECK_FALSE(loader.next().has_value());
      CHECK(loader.step() == 100);
    }
}

TEST_CASE("loader: begins and ends at any step, so that a second one continues the first") {
  Loader first(steps(-1), {.last_step = 5});
  CHECK(all_of(first) == std::vector<int64_t>{0, 1, 2, 3, 4});
  Loader second(steps(-1), {.first_step = first.step(), .last_step = 8, .workers = 2});
  CHECK(second.next()->step == 5);
  CHECK(all_of(second) == std::vector<int64_t>{6, 7});
  Loader beyond(steps(3), {.first_step = 7});
  CHECK_FALSE(beyond.next().has_value());
}

TEST_CASE("loader: windows have the same values with and without workers") {
  std::vector<uint16_t> ids;
  for (int i = 0; i < 3000; ++i) ids.push_back(static_cast<uint16_t>(i * 7 % 65));
  const auto windows =
      std::make_shared<data::RandomWindows>(data::Tokens(ids, "ids"), data::RandomWindows::Options());
  Loader inline_loader(windows, {.last_step = 20, .workers = 0}),
      threaded(windows, {.last_step = 20, .workers = 3});
  for (const Batch& batch : inline_loader) {
    const auto other = threaded.next();
    REQUIRE(other.has_value());
    CHECK(std::equal(batch.x.data<int64_t>(), batch.x.data<int64_t>() + batch.x.numel(),
                     other->x.data<int64_t>()));
    CHECK(batch.samples == other->samples);
  }
}

TEST_CASE("loader: prefetches at most the given number of batches") {
  auto source = steps(-1);
  Loader loader(source, {.workers = 3, .prefetch = 4});
  for (int64_t step = 0; step < 50; ++step) {
    loader.next();
    CHECK(source->furthest <= step + 4);
  }
}

TEST_CASE("loader: an exception of the source is rethrown when its batch is taken, and only then") {
  for (const int workers : {0, 2}) {
    auto source = steps(10);
    source->failing = 3;
    Loader loader(source, {.workers = workers, .prefetch = 8});
    for (int64_t step = 0; step < 3; ++step) CHECK(loader.next()->step == step);
    CHECK(message_of<std::runtime_error>([&] { loader.next(); }) == "no example 3");
    CHECK(message_of<std::runtime_error>([&] { loader.next(); }) == "no example 3");
    CHECK(loader.step() == 3);
  }
}

TEST_CASE("loader: a batch that is late is an error, and can be taken when it is ready") {
  std::promise<void> gate;
  auto source = steps(3);
  source->waiting = 1;
  source->gate = gate.get_future().share();
  Loader loader(source, {.workers = 1, .timeout = 30ms});
  source->waits.wait(false);  // batch 0 is ready then
  CHECK(loader.next()->step == 0);
  CHECK(message_of<DataError>([&] { loader.next(); }) ==
        "loader of steps: the batch of step 1 was not ready after 30 ms");
  gate.set_value();
  const auto until = std::chrono::steady_clock::now() + 20s;
  std::optional<Batch> batch;
  while (!batch && std::chrono::steady_clock::now() < until) try {
      batch = loader.next();
    } catch (const DataError&) {
    }
  REQUIRE(batch.has_value());
  CHECK(batch->step == 1);
}

TEST_CASE("loader: is destroyed with batches left, with waiting workers, and with a blocked one") {
  { Loader untaken(steps(-1), {.workers = 4, .prefetch = 2}); }
  { Loader done(steps(1), {.workers = 4}); }
  std::promise<void> gate;
  std::weak_ptr<Steps> alive;
  {
    auto source = steps(-1);
    alive = source;
    source->waiting = 0;
    source->gate = gate.get_future().share();
    Loader stuck(source, {.workers = 1, .timeout = 20ms});
    source->waits.wait(false);
  }
  CHECK_FALSE(alive.expired());  // the detached worker still holds it
  gate.set_value();
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!alive.expired() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(alive.expired());
}

TEST_CASE(
    "loader: allocations of the workers are counted in the account of the thread that made the loader") {
  const auto account = make_intrusive<MemoryAccount>();
  const AccountScope scope(account);
  Loader loader(steps(-1), {.workers = 2});
  const auto batch = loader.next();
  CHECK(account->total().current > 0);
}

TEST_CASE("loader: taking a batch sets the thread's random context") {
  const RandomContextScope scope({});
  for (const int workers : {0, 1}) {
    Loader loader(steps(-1), {.first_step = 4, .last_step = 6, .workers = workers, .seed = 99});
    for (const Batch& batch : loader) {
      CHECK(random_context().seed == 99);
      CHECK(random_context().step == batch.step);
      CHECK(random_context().samples == std::vector<int64_t>{2 * batch.step, 2 * batch.step + 1});
      CHECK(next_random_key("dropout") == random_key(99, "dropout", 0));  // calls are counted from 0 again
    }
  }
}

TEST_CASE("loader: options out of range are refused") {
  const auto problem = [](const Loader::Options& options) {
    return message_of<ConfigError>([&] { Loader loader(steps(1), options); });
  };
  CHECK(contains(problem({.first_step = -1}), "first step -1"));
  CHECK(contains(problem({.workers = -1}), "-1 workers"));
  CHECK(contains(problem({.prefetch = 0}), "prefetch 0"));
}

TEST_CASE("loader: in a forked process one with workers throws, and a new one continues") {
#ifdef __SANITIZE_THREAD__
  MESSAGE("skipped: the thread sanitizer starts no thread in a process forked from one with threads");
  return;
#endif
  Loader loader(steps(8), {.workers = 2, .timeout = 0ms});
  Loader without(steps(8), {.workers = 0});
  loader.next(), without.next();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a hang is a failure
    int wrong = 0;
    {
      wrong +=
          !contains(message_of<DataError>([&] { loader.next(); }), "make a new loader with first_step = 1");
      wrong += without.next()->x.item_i64() != 1;
      Loader next(steps(8), {.first_step = loader.step(), .workers = 2});
      wrong += all_of(next) != std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7};
      loader.~Loader();  // must return
    }
    ::_exit(wrong);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(all_of(loader).size() == 7);
}

TEST_CASE("batch: a source of the user's own may leave items out") {
  Batch batch;
  batch.x = Tensor::zeros({4, 2}, f32);
  batch.y = Tensor::zeros({4}, i64);
  batch.samples = {0, 1, 2, 3};
  CHECK(batch.without_padding().size() == 4);  // nothing to leave out
  Batch padded = batch;
  padded.items = {7, 3, 9, -1};
  padded.total_unpadded_size = 7;
  padded.world_size = 2;
  const Batch unpadded = padded.without_padding();
  CHECK(unpadded.size() == 3);
  CHECK(unpadded.x.size(0) == 3);
  CHECK(unpadded.items == std::vector<int64_t>{7, 3, 9});
  CHECK(unpadded.rank_weight() == padded.rank_weight());
  padded.items = {-1, -1, -1, -1};
  CHECK(padded.without_padding().size() == 4);  // a rank without samples takes part with padding
  const Batch half = batch.micro_batch(1, 2);
  CHECK(half.x.shape() == Shape{2, 2});
  CHECK(half.samples == std::vector<int64_t>{1, 2});
  CHECK(half.items.empty());
  CHECK(batch.weights().numel() == 4);
  batch.items = {7, 8};
  CHECK_THROWS_WITH_AS(batch.micro_batch(2, 2),
                       doctest::Contains("expected 4 items, one for each sample, or none, got 2"),
                       IndexError);
}
