// The states of metrics over ranks: calls, reductions, and ranks that do not have the same metrics.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dist/train/metrics/accuracy.h"
#include "dist/train/metrics/f1.h"
#include "dist/train/metrics/mean.h"
#include "dist/train/metrics/metric_collection.h"
#include "dist/train/metrics/r2.h"
#include "tests/dist/fsdp/rank_threads.h"
#include "tests/support/error_text.h"

using namespace tessera;
using namespace tessera::training;

namespace {

struct Span : Metric {
  Span() : Metric("extremes") {}
  /// smallest, largest, sum, first, last, count
  Tensor value() const override {
    return Tensor::from({smallest.value.item(), largest.value.item(), sum.value.item(), first.value.item(),
                         last.value.item(), count.value.item()});
  }
  void update(double x, int64_t n) {
    double* const low = smallest.value.data<double>();
    double* const high = largest.value.data<double>();
    *low = std::isnan(x) ? x : std::min(*low, x);
    *high = std::max(*high, x);
    *sum.value.data<double>() += x;
    *first.value.data<int64_t>() = std::min(*first.value.data<int64_t>(), n);
    *last.value.data<int64_t>() = std::max(*last.value.data<int64_t>(), n);
    *count.value.data<int64_t>() += 1;
  }

  MetricState& smallest = add_state("smallest", dist::Reduction::min);
  MetricState& largest = add_state("largest", dist::Reduction::max);
  MetricState& sum = add_state("sum", dist::Reduction::sum);
  MetricState& first = add_state("first", dist::Reduction::min, i64);
  MetricState& last = add_state("last", dist::Reduction::max, i64);
  MetricState& count = add_state("count", dist::Reduction::sum, i64);
};

/// The message of the MismatchError that `compute` over 3 ranks throws on each of them, after `fill`.
template <class Fill>
std::vector<std::string> mismatches(const Fill& fill) {
  return on_ranks<std::vector<std::string>>(
             3,
             [&](dist::World& world) {
               MetricCollection metrics;
               fill(metrics, world.rank());
               std::vector<std::string> messages = {
                   message_of<dist::MismatchError>([&] { metrics.compute(world.communicator()); })};
               // The group can be used afterwards.
               const Tensor one = Tensor::from({1.0});
               world.communicator().all_reduce(one, dist::Reduction::sum).wait();
               if (one.item() != 3) messages.emplace_back("the group does not add up");
               return messages;
             })
      .at(2);
}

void check_mismatch(const std::vector<std::string>& messages, const std::string& expected) {
  REQUIRE(messages.size() == 1);
  CHECK(messages[0] == "metrics over the ranks of group 'world': " + expected);
}

}  // namespace

TEST_CASE("metric states over ranks: sums, smallest and largest values of both dtypes") {
  const auto results = on_ranks<Tensor>(4, [](dist::World& world) {
    Span metric;
    if (world.rank() != 1) metric.update(world.rank() - 1.5, 10 * world.rank());
    if (world.rank() == 3) metric.update(-7, -3);
    return metric.compute(world.communicator());
  });
  for (const Tensor& result : results) {
    const std::vector<double> expected = {-7, 1.5, -6.5, -3, 30, 4};
    for (size_t i = 0; i < expected.size(); ++i) CHECK(result.data<double>()[i] == expected[i]);
  }
}

TEST_CASE("metric states over ranks: a smallest value that is NaN on one rank is NaN") {
  for (int with_nan = 0; with_nan < 2; ++with_nan)
    for (const Tensor& result : on_ranks<Tensor>(2, [&](dist::World& world) {
           Span metric;
           metric.update(world.rank() == with_nan ? std::numeric_limits<double>::quiet_NaN() : 1.0, 0);
           return metric.compute(world.communicator());
         }))
      CHECK(std::isnan(result.data<double>()[0]));
}

TEST_CASE("metrics over ranks: the states stay those of the rank, and updates may follow") {
  const auto results = on_ranks<std::vector<double>>(3, [](dist::World& world) {
    Mean mean;
    mean.update(world.rank());
    const double first = mean.compute(world.communicator()).item();
    const double own = mean.compute().item();
    mean.update(world.rank() + 3.0);
    return std::vector<double>{first, own, mean.compute(world.communicator()).item()};
  });
  for (int rank = 0; rank < 3; ++rank)
    CHECK(results[static_cast<size_t>(rank)] == std::vector<double>{1.0, static_cast<double>(rank), 2.5});
}

TEST_CASE("metrics over ranks: one call to compare, and one for each dtype of all metrics' states") {
  const auto kinds = on_ranks<std::vector<std::string>>(2, [](dist::World& world) {
    dist::Ledger& ledger = world.communicator().ledger();
    ledger.keep_entries(true);
    Mean mean;
    mean.compute(world.communicator());
    MetricCollection metrics;
    metrics.add<Mean>("loss");
    metrics.add<Accuracy>("accuracy");
    metrics.add<F1>("f1", {.classes = 5});
    metrics.compute(world.communicator());
    metrics.add<R2>("r2");  // its smallest and largest values take a gather, its samples are i64
    metrics.add<R2>("r2_again");
    metrics.compute(world.communicator());
    MetricCollection().compute(world.communicator());
    std::vector<std::string> all;
    for (const dist::LedgerEntry& entry : ledger.entries())
      all.push_back(text(dist::name_of(entry.kind), " ", entry.bytes));
    return all;
  });
  // Bytes of the full tensor: 2 ranks of a hash and a length; f64 states of 2, 2 + 2 + 15, 19 + 2 x 6
  // elements.
  const std::vector<std::string> expected = {"all_gather 32",  "all_reduce 16", "all_gather 32",
                                             "all_reduce 152", "all_gather 32", "all_gather 496",
                                             "all_reduce 16",  "all_gather 32"};
  for (const auto& of_rank : kinds) CHECK(of_rank == expected);
}

TEST_CASE("metrics over ranks: a metric that one rank alone has, or lacks, is an error on every rank") {
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   metrics.add<Mean>("loss");
                   if (rank == 2) metrics.add<Accuracy>("accuracy");
                 }),
                 "rank 2 has metric 'accuracy', which rank 0 does not have");
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   if (rank != 1) metrics.add<Mean>("loss");
                 }),
                 "rank 1 does not have metric 'loss', which rank 0 has");
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   if (rank == 0) metrics.add<Mean>("loss");
                 }),
                 "rank 1 does not have metric 'loss', which rank 0 has");
  check_mismatch(
      mismatches([](MetricCollection& metrics, int rank) { metrics.add<Mean>(rank == 1 ? "Loss" : "loss"); }),
      "rank 1 has metric 'Loss', which rank 0 does not have");
}

TEST_CASE("metrics over ranks: other shapes, options, kinds or orders are errors on every rank") {
  const std::string options = "average macro, threshold 0.5, ignore_index -100)";
  check_mismatch(
      mismatches(
          [](MetricCollection& metrics, int rank) { metrics.add<F1>("f1", {.classes = rank == 2 ? 4 : 5}); }),
      "metric 'f1' differs: rank 2 has f1(classes 4, " + options +
          ", correct (4,) f64 sum, predicted (4,) f64 sum, actual (4,) f64 sum; rank 0 has f1(classes 5, " +
          options + ", correct (5,) f64 sum, predicted (5,) f64 sum, actual (5,) f64 sum");
  const std::string counts = "threshold 0.5, ignore_index -100), correct () f64 sum, total () f64 sum";
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   metrics.add<Accuracy>("accuracy", {.top_k = rank == 1 ? 5 : 1});  // of the same shapes
                 }),
                 "metric 'accuracy' differs: rank 1 has accuracy(top_k 5, " + counts +
                     "; rank 0 has accuracy(top_k 1, " + counts);
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   if (rank == 1)
                     metrics.add<Precision>("x");
                   else
                     metrics.add<Recall>("x");
                 }),
                 "metric 'x' differs: rank 1 has precision(classes 2, " + options +
                     ", correct (2,) f64 sum, predicted (2,) f64 sum, actual (2,) f64 sum; rank 0 has "
                     "recall(classes 2, " +
                     options + ", correct (2,) f64 sum, predicted (2,) f64 sum, actual (2,) f64 sum");
  check_mismatch(mismatches([](MetricCollection& metrics, int rank) {
                   metrics.add<Mean>(rank == 2 ? "b" : "a");
                   metrics.add<Mean>(rank == 2 ? "a" : "b");
                 }),
                 "rank 2 has metric 'b' where rank 0 has 'a': expected the same order");
}

TEST_CASE("metrics over ranks: a rank that makes another call ends with an error that names both") {
  const std::string message = message_of<dist::MismatchError>([] {
    dist::launch(
        [](dist::World& world) {
          Mean mean;
          if (world.rank() == 0)
            mean.compute(world.communicator());
          else
            world.communicator().barrier().wait();
        },
        {.virtual_ranks = 2, .timeout = std::chrono::seconds(20)});
  });
  CHECK(contains(message, "all_gather #0 of unit 'metrics of the ranks'"));
  CHECK(contains(message, "barrier #0"));
}
