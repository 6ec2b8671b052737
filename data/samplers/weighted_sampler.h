#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/samplers/sampler.h"

namespace tessera::data {

class EpochOrders;

/// Examples drawn with a probability in proportion to their weights, as PyTorch's WeightedRandomSampler: for
/// classes of different sizes.
class WeightedSampler : public Sampler {
 public:
  /// How many are drawn, and whether one may be drawn again.
  struct Options {
    int64_t examples = 0;     ///< examples per epoch; 0: as many as there are weights
    bool replacement = true;  ///< an example may come several times in an epoch; otherwise at most once
    uint64_t seed = 1337;     ///< of the draws, with the epoch
  };
  /// One weight for each example, finite and not negative; they need not add up to 1. Throws ConfigError for
  /// other weights, for weights that are all 0, and without replacement for more examples than weights above
  /// 0.
  /// @{
  explicit WeightedSampler(std::span<const double> weights) : WeightedSampler(weights, Options()) {}
  WeightedSampler(std::span<const double> weights, const Options& options);
  /// @}
  ~WeightedSampler() override;

  int64_t size() const override { return examples_; }
  int64_t at(int64_t epoch, int64_t index) const override;

 private:
  int64_t draw_one(int64_t epoch, int64_t index) const;

  std::vector<double> cumulative_;  ///< sums of the weights up to and including each
  int64_t examples_;
  uint64_t seed_;
  std::unique_ptr<EpochOrders> orders_;  ///< without replacement
};

}  // namespace tessera::data
