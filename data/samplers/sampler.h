#pragma once

#include <cstdint>
#include <memory>

#include "data/batch.h"

namespace tessera::data {

/// The order of a dataset's examples: a pure function of (epoch, index). `set_epoch` is a convenience for
/// hand-written loops.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Number of examples per epoch.
  virtual int64_t size() const = 0;
  /// The example at position `index` of an epoch. Throws IndexError outside [0, size()).
  virtual int64_t at(int64_t epoch, int64_t index) const = 0;

  /// Sets the epoch of `operator[]`; `at` does not use it.
  void set_epoch(int64_t epoch) { epoch_ = epoch; }
  /// The epoch set last; 0 at first.
  int64_t epoch() const { return epoch_; }
  /// `at(epoch(), index)`.
  int64_t operator[](int64_t index) const { return at(epoch_, index); }

 private:
  int64_t epoch_ = 0;
};

/// 0, 1, 2, ... in every epoch.
class SequentialSampler : public Sampler {
 public:
  /// Throws ConfigError for a negative size.
  explicit SequentialSampler(int64_t size);
  int64_t size() const override { return size_; }
  int64_t at(int64_t epoch, int64_t index) const override;

 private:
  int64_t size_;
};

/// Every example once per epoch, in a different order for each (seed, epoch).
class RandomSampler : public Sampler {
 public:
  /// Throws ConfigError for a negative size.
  RandomSampler(int64_t size, uint64_t seed);
  int64_t size() const override { return size_; }
  int64_t at(int64_t epoch, int64_t index) const override;

 private:
  int64_t size_;
  uint64_t seed_;
};

/// One rank's share of another sampler's order. The order is cut into batches of all ranks together, and each
/// rank takes a contiguous share of every batch: the content of a batch does not depend on the number of
/// ranks. An incomplete last batch is smaller and padded so that all shares have the same length.
class DistributedSampler : public Sampler {
 public:
  /// The batches, and this rank's share of them.
  struct Options {
    /// This rank, and the number of ranks.
    /// @{
    int rank = 0, world_size = 1;
    /// @}
    /// Examples per step of all ranks together; 0 for one per rank.
    int64_t batch_size = 0;
    /// Whether an incomplete last batch is left out.
    bool drop_last = false;
  };
  /// Throws ConfigError where the rank is outside [0, world_size) or the batch does not divide evenly, and
  /// DataError where an epoch has no batch at all.
  DistributedSampler(std::shared_ptr<const Sampler> order, const Options& options);

  int64_t size() const override;
  /// The example at position `index`; -1 for padding.
  int64_t at(int64_t epoch, int64_t index) const override;

  /// Batches per epoch.
  int64_t batches() const { return batches_; }
  /// Examples in a batch of all ranks together: fewer in an incomplete last one.
  int64_t examples(int64_t batch) const;
  /// This rank's share of a batch, padding included.
  Share share(int64_t batch) const;
  /// Number of ranks.
  int world_size() const { return world_size_; }

 private:
  std::shared_ptr<const Sampler> order_;
  int rank_, world_size_;
  int64_t batch_size_;
  int64_t batches_;
};

}  // namespace tessera::data
