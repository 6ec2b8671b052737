#include "data/samplers/weighted_sampler.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <vector>

#include "tensor/error.h"
#include "tests/support/error_text.h"

using namespace tessera;
using data::WeightedSampler;

TEST_CASE("weighted sampler: examples come in proportion to their weights") {
  const std::vector<double> weights = {1, 0, 3, 0.5, 1.5, 0};
  const WeightedSampler sampler(weights, {.examples = 12'000, .seed = 5});
  CHECK(sampler.size() == 12'000);
  double chi_square = 0;
  std::vector<double> drawn(weights.size());
  for (int64_t i = 0; i < sampler.size(); ++i) ++drawn[static_cast<size_t>(sampler.at(1, i))];
  for (size_t i = 0; i < weights.size(); ++i) {
    const double expected = 2000 * weights[i];
    if (expected == 0)
      CHECK(drawn[i] == 0);
    else
      chi_square += (drawn[i] - expected) * (drawn[i] - expected) / expected;
  }
  CHECK(chi_square < 16.3);  // 3 degrees of freedom: above it once in 1,000
}

TEST_CASE("weighted sampler: without replacement an example comes once, the heavy ones first") {
  const std::vector<double> weights = {1, 0, 4, 1};
  const WeightedSampler all(weights, {.replacement = false});
  CHECK(all.size() == 3);
  // The first draw is of 2 with probability 4/6; the second of 0 after 2 with 1/2.
  int heavy_first = 0, then_zero = 0;
  for (int64_t epoch = 0; epoch < 3000; ++epoch) {
    CHECK(std::set<int64_t>{all.at(epoch, 0), all.at(epoch, 1), all.at(epoch, 2)} ==
          std::set<int64_t>{0, 2, 3});
    heavy_first += all.at(epoch, 0) == 2;
    then_zero += all.at(epoch, 0) == 2 && all.at(epoch, 1) == 0;
  }
  CHECK(heavy_first > 1915);  // 2000, standard deviation 25.8
  CHECK(heavy_first < 2085);
  CHECK(then_zero > 915);
  CHECK(then_zero < 1085);
  CHECK(WeightedSampler(weights, {.examples = 2, .replacement = false}).size() == 2);
}

TEST_CASE("weighted sampler: a function of seed, epoch and index") {
  const std::vector<double> weights(100, 1.0);
  for (const bool replacement : {true, false}) {
    const WeightedSampler a(weights, {.replacement = replacement}), b(weights, {.replacement = replacement});
    const WeightedSampler other(weights, {.replacement = replacement, .seed = 1});
    int same_epoch = 0, same_seed = 0;
    for (int64_t i = 99; i >= 0; --i) {
      CHECK(a.at(3, i) == b.at(3, i));
      same_epoch += a.at(3, i) == a.at(4, i);
      same_seed += a.at(3, i) == other.at(3, i);
    }
    CHECK(same_epoch < 10);
    CHECK(same_seed < 10);
  }
  CHECK(WeightedSampler(std::vector<double>{2.0}).at(0, 0) == 0);
}

TEST_CASE("weighted sampler: weights and options that do not fit are errors") {
  const auto problem = [](std::vector<double> weights, const WeightedSampler::Options& options = {}) {
    return message_of<ConfigError>([&] { WeightedSampler(weights, options); });
  };
  CHECK(contains(problem({1, -1}), "finite and not negative, got -1"));
  CHECK(contains(problem({1, std::numeric_limits<double>::quiet_NaN()}), "got nan"));
  CHECK(contains(problem({1, std::numeric_limits<double>::infinity()}), "got inf"));
  CHECK(contains(problem({0, 0}), "sum of weights above 0, got 0 from 2 weights"));
  CHECK(contains(problem({}), "got 0 from 0 weights"));
  CHECK(contains(problem({1e308, 1e308}), "finite sum"));
  CHECK(contains(problem({1}, {.examples = -1}), "at least 0 examples, got -1"));
  CHECK(contains(problem({1, 0}, {.examples = 2, .replacement = false}),
                 "at most 1 examples without replacement"));
  CHECK_THROWS_AS(WeightedSampler(std::vector<double>{1.0}).at(0, 1), IndexError);
}
