#include "data/samplers/weighted_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/random_draws.h"
#include "data/samplers/epoch_orders.h"
#include "tensor/error.h"

namespace tessera::data {
namespace {

/// Uniform over (0, 1).
double uniform(uint64_t seed, int64_t epoch, int64_t index) {
  // Two draws: the counter holds 96 bits besides the purpose, and epoch and index have 64 each.
  const uint64_t epoch_seed = draw(seed, Purpose::weighted, static_cast<uint64_t>(epoch), 0);
  const uint64_t bits = draw(epoch_seed, Purpose::weighted, static_cast<uint64_t>(index), 1);
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// Every example with a weight above 0, ordered by log(u) / weight: its first n are n draws without
/// replacement (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
std::vector<int64_t> draw_order(const std::vector<double>& weights, uint64_t seed, int64_t epoch) {
  std::vector<double> keys(weights.size());
  std::vector<int64_t> order;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    keys[i] = std::log(uniform(seed, epoch, static_cast<int64_t>(i))) / weights[i];
    order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&keys](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

WeightedSampler::WeightedSampler(std::span<const double> weights, const Options& options)
    : cumulative_(weights.size()),
      examples_(options.examples > 0 ? options.examples : std::ssize(weights)),
      seed_(options.seed) {
  require<ConfigError>(options.examples >= 0, "weighted sampler: expected at least 0 examples, got ",
                       options.examples);
  for (const double weight : weights)
    require<ConfigError>(std::isfinite(weight) && weight >= 0,
                         "weighted sampler: expected weights that are finite and not negative, got ", weight);
  std::partial_sum(weights.begin(), weights.end(), cumulative_.begin());
  require<ConfigError>(!weights.empty() && cumulative_.back() > 0 && std::isfinite(cumulative_.back()),
                       "weighted sampler: expected a finite sum of weights above 0, got ",
                       weights.empty() ? 0.0 : cumulative_.back(), " from ", weights.size(), " weights");
  if (options.replacement) return;
  const int64_t possible =
      std::count_if(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
  if (options.examples == 0) examples_ = possible;
  require<ConfigError>(examples_ <= possible, "weighted sampler: expected at most ", possible,
                       " examples without replacement, as many as weights above 0, got ", examples_);
  orders_ =
      std::make_unique<EpochOrders>([all = std::vector<double>(weights.begin(), weights.end()),
                                     seed = seed_](int64_t epoch) { return draw_order(all, seed, epoch); });
}

WeightedSampler::~WeightedSampler() = default;

int64_t WeightedSampler::draw_one(int64_t epoch, int64_t index) const {
  const double value = uniform(seed_, epoch, index) * cumulative_.back();
  const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), value);
  if (at != cumulative_.end()) return at - cumulative_.begin();
  // The product rounded up to the sum itself: the last example with a weight.
  return std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back()) - cumulative_.begin();
}

int64_t WeightedSampler::at(int64_t epoch, int64_t index) const {
  require<IndexError>(index >= 0 && index < size(), "sampler: expected an index in [0, ", size(), "), got ",
                      index);
  return orders_ ? (*orders_->get(epoch))[static_cast<size_t>(index)] : draw_one(epoch, index);
}

}  // namespace tessera::data
