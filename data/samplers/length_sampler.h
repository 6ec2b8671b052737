#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/samplers/sampler.h"

namespace tessera::data {

class EpochOrders;

/// An order in which the examples of a batch have similar lengths, so that little is padded. Every example
/// once per epoch. A random order is divided into groups of several batches; each group is sorted by length
/// and cut into batches; then the batches come in random order, an incomplete one at the end.
class LengthSampler : public Sampler {
 public:
  /// The batches, and how random their order is.
  struct Options {
    int64_t batch_size = 1;  ///< examples of a batch, of all ranks together: that of the loader
    /// Batches that are sorted together: more of them, less padding and less randomness.
    int64_t batches_per_group = 50;
    bool shuffle = true;   ///< otherwise all examples by length, the longest first, in every epoch
    uint64_t seed = 1337;  ///< of the orders, with the epoch
  };
  /// One length for each example. Throws ConfigError for options out of range.
  LengthSampler(std::vector<int64_t> lengths, const Options& options);
  ~LengthSampler() override;

  int64_t size() const override { return size_; }
  int64_t at(int64_t epoch, int64_t index) const override;

 private:
  int64_t size_;
  bool shuffle_;
  std::unique_ptr<EpochOrders> orders_;
};

}  // namespace tessera::data
