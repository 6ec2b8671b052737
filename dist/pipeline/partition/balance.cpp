// The exact cut of a list of costs into stages.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dist/pipeline/partition/partition.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Sums of ranges of costs.
class RangeCosts {
 public:
  explicit RangeCosts(const PartitionCosts& costs) : costs_(costs) {
    sums_of_fixed_ = sums(costs.fixed);
    sums_of_scaled_ = sums(costs.scaled);
  }
  double of(size_t stage, size_t first, size_t end) const {
    const double fixed = sums_of_fixed_[end] - sums_of_fixed_[first];
    if (costs_.scaled.empty()) return fixed;
    const double live = costs_.live.empty() ? 1 : costs_.live[stage];
    return fixed + live * (sums_of_scaled_[end] - sums_of_scaled_[first]);
  }

 private:
  static std::vector<double> sums(const std::vector<double>& values) {
    std::vector<double> all(values.size() + 1);
    std::partial_sum(values.begin(), values.end(), all.begin() + 1);
    return all;
  }
  const PartitionCosts& costs_;
  std::vector<double> sums_of_fixed_, sums_of_scaled_;
};

/// best[s][n]: the smallest value of a cut of the first n layers into s + 1 stages, where a stage of cost c
/// adds to a cut of value v by `join(v, c)`.
template <class Join>
std::vector<std::vector<double>> best_values(const RangeCosts& costs, size_t layers, size_t stages,
                                             const Join& join) {
  std::vector<std::vector<double>> best(stages, std::vector<double>(layers + 1, infinity));
  for (size_t n = 1; n <= layers; ++n) best[0][n] = join(0, costs.of(0, 0, n));
  for (size_t s = 1; s < stages; ++s)
    for (size_t n = s + 1; n <= layers; ++n)
      for (size_t first = s; first < n; ++first)
        best[s][n] = std::min(best[s][n], join(best[s - 1][first], costs.of(s, first, n)));
  return best;
}

void check(const PartitionCosts& costs, int stages) {
  const auto layers = std::ssize(costs.fixed);
  require<ConfigError>(stages >= 1, "partition: expected at least 1 stage, got ", stages);
  require<ConfigError>(layers >= stages, "partition: expected at least a layer for each of ", stages,
                       " stages, got ", layers, layers == 1 ? " layer" : " layers");
  require<ConfigError>(costs.scaled.empty() || std::ssize(costs.scaled) == layers,
                       "partition: expected costs of ", layers, " layers, got ", costs.scaled.size());
  require<ConfigError>(costs.live.empty() || std::ssize(costs.live) == stages, "partition: expected ", stages,
                       " numbers of live micro-batches, got ", costs.live.size());
  for (const auto* list : {&costs.fixed, &costs.scaled, &costs.live})
    for (const double cost : *list)
      require<ConfigError>(cost >= 0 && std::isfinite(cost),
                           "partition: expected finite costs of at least 0, got ", cost);
}

}  // namespace

std::vector<int64_t> balanced_boundaries(const PartitionCosts& costs, int stages) {
  check(costs, stages);
  const RangeCosts ranges(costs);
  const size_t layers = costs.fixed.size(), count = static_cast<size_t>(stages);
  const double largest = best_values(ranges, layers, count,
                                     [](double v, double c) { return std::max(v, c); })[count - 1][layers];
  // Sums of prefixes are rounded, so equal costs may differ in their last bits.
  const double limit = largest * (1 + 1e-12), unit = largest > 0 ? largest : 1;
  const auto squares = [&](double value, double cost) {
    return cost > limit ? infinity : value + (cost / unit) * (cost / unit);
  };
  const auto best = best_values(ranges, layers, count, squares);
  std::vector<int64_t> boundaries(count + 1);
  boundaries[count] = static_cast<int64_t>(layers);
  for (size_t s = count - 1, end = layers; s > 0; --s) {
    double least = infinity;
    for (size_t first = s; first < end; ++first)
      least = std::min(least, squares(best[s - 1][first], ranges.of(s, first, end)));
    for (size_t first = end - 1; first >= s; --first)
      if (squares(best[s - 1][first], ranges.of(s, first, end)) <= least + 1e-9) {
        end = first;
        break;
      }
    boundaries[s] = static_cast<int64_t>(end);
  }
  return boundaries;
}

}  // namespace tessera::dist
