#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/collate.h"
#include "data/datasets/dataset.h"
#include "data/samplers/sampler.h"

namespace tessera::data {

/// Batches of a dataset, epoch after epoch without end: step s is batch s mod n of epoch s / n, n batches an
/// epoch. With an incomplete last batch, the mean over an epoch weights each batch by its examples:
///
///     sum += loss.item() * batch.unpadded_size(), count += batch.unpadded_size();    // then over the ranks
///
/// and training on several ranks takes `loss * batch.rank_weight()`. Where a rank's share is padding only,
/// the mean over its targets is NaN: take a sum there, or skip it.
class DatasetBatches : public BatchSource {
 public:
  /// The batches, and this rank's share of them.
  struct Options {
    /// Examples per step, of all ranks together.
    int64_t batch_size = 1;
    bool shuffle = true;   ///< a different order in each epoch; otherwise 0, 1, 2, ... in all
    uint64_t seed = 1337;  ///< of these orders
    /// Whether an epoch's incomplete last batch is left out. Otherwise it is smaller, and on several ranks
    /// padded to the same number of rows on each. A padded row has item -1 and weight 0 (`Batch::weights`),
    /// and the values of some example, except in the fields of `targets`.
    bool drop_last = true;
    /// Fields that hold ids as targets (i64 or i32): `ignored_target` in a padded row, which losses skip.
    std::vector<std::string> targets = {"y"};
    /// This rank, of `world_size` ranks, takes a contiguous share of every batch.
    /// @{
    int rank = 0, world_size = 1;
    /// @}
    Collate collate = stack_examples;  ///< called from several threads at once
  };
  /// Throws DataError for a dataset without a batch, ConfigError for options out of range.
  DatasetBatches(std::shared_ptr<const Dataset> dataset, const Options& options);
  /// In the order of the given sampler; `shuffle` and `seed` are not used.
  DatasetBatches(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> order,
                 const Options& options);

  Batch batch(int64_t step) const override;
  std::string name() const override { return dataset_->name(); }
  /// The n above: an incomplete last batch counts unless it is left out.
  int64_t batches_per_epoch() const { return sampler_.batches(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  DistributedSampler sampler_;
  std::vector<std::string> targets_;
  uint64_t seed_;
  Collate collate_;
};

}  // namespace tessera::data
