#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/batch.h"
#include "data/sampler.h"
#include "tensor/tensor.h"

namespace tessera::data {

/// One example: a model's input x, and its target y.
struct Example {
  Tensor x;  ///< of one example: without a batch dimension
  Tensor y;  ///< likewise, of any shape and dtype
};

/// Examples by index: the base class for user-defined data.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of examples.
  virtual int64_t size() const = 0;
  /// Example `index`, 0 <= index < size(). Called from several threads at once. All examples of a batch have
  /// the same shapes and dtypes, unless a user-defined `collate` combines them.
  virtual Example get(int64_t index) const = 0;
  /// Its name in error messages.
  virtual std::string name() const { return "dataset"; }
};

/// Two tensors with the same first extent: example i is row i of both.
class TensorDataset : public Dataset {
 public:
  /// Shares the tensors. Throws ShapeError where the first extents differ, or there is none.
  TensorDataset(Tensor x, Tensor y);
  int64_t size() const override { return x_.size(0); }
  Example get(int64_t index) const override { return {x_.select(0, index), y_.select(0, index)}; }

 private:
  Tensor x_, y_;
};

/// Combines examples into x and y of a batch.
using Collate = std::function<Example(std::span<const Example>)>;
/// All x stacked along a new first dimension, and all y: n of (...) give (n, ...). Throws ShapeError or
/// DTypeError for examples that differ.
Example stack_examples(std::span<const Example> examples);

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
    /// the values of some example as x, and as y, where ids are the targets, `ignored_target`, which losses
    /// skip.
    bool drop_last = true;
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
  Collate collate_;
};

}  // namespace tessera::data
