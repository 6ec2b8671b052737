#pragma once  // internal

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "dist/train/trainer/trainer.h"

namespace tessera::training {

/// A micro-batch of this rank, and its part of the step's mean loss. The parts of all micro-batches of a step
/// on all ranks add up to the number of ranks.
struct MicroBatch {
  data::Batch batch;
  double share = 1;
  /// Padding alone: the source of this rank has ended, and that of another one has not.
  bool is_after_end = false;
};

/// The batches of a stage on this rank, by epoch and index. A dataset's batch is one micro-batch; that of a
/// source is a step's, and is cut into `TrainerOptions::accumulate` micro-batches in training.
class StageBatches {
 public:
  /// Throws ConfigError for a loader with neither dataset nor source or with both, for a source that does not
  /// end (`BatchSource::may_end`) where a stage must, and as DatasetBatches; DataError for a batch that
  /// cannot be cut.
  StageBatches(const LoaderSpec& spec, const TrainerOptions& options, Stage stage);

  /// Fields that hold targets.
  const std::vector<std::string>& targets() const { return targets_; }
  /// Micro-batches of an epoch; `endless` for a source without end or limit.
  int64_t size() const { return used_ == endless ? endless : used_ * cuts_; }
  static constexpr int64_t endless = INT64_MAX;
  /// Samples of a micro-batch on this rank.
  int64_t micro_batch_size() const { return micro_batch_size_; }

  /// One pass over an epoch's micro-batches. Each that is taken sets the thread's random context.
  class Pass {
   public:
    Pass(const StageBatches& batches, int64_t epoch, int64_t first);
    /// Nothing at the end, which of a source of unknown length is that of the last rank: other ranks get
    /// padding until then, and all ranks call it together. Throws as `data::Loader::next`, and DataError for
    /// a batch that cannot be cut, for a source of training that ends before its number of steps, and where
    /// some ranks have batches and others have none at all.
    std::optional<MicroBatch> next();

   private:
    std::optional<MicroBatch> next_of_ranks();

    const StageBatches& batches_;
    data::Loader loader_;
    data::Batch whole_;  // of a source, the newest
    int64_t cut_;        // index of the next micro-batch in `whole_`
  };
  /// The micro-batches `first` to the last one of an epoch.
  Pass epoch(int64_t epoch, int64_t first) const { return {*this, epoch, first}; }

 private:
  data::Loader::Options steps_of(int64_t epoch, int64_t first) const;

  std::shared_ptr<const data::BatchSource> source_;
  std::vector<std::string> targets_;
  uint64_t seed_;
  int workers_;
  bool is_dataset_, is_evaluation_ = false;
  dist::Communicator* ranks_ = nullptr;  // that agree on the end of a source of unknown length
  int64_t accumulate_, cuts_ = 1;
  int64_t micro_batch_size_;
  int64_t size_, used_;  // batches of the source in an epoch, and those of them that are used
};

/// A batch for the model: on the device. Of a batch without samples, where the loss has the weight 0, targets
/// are 0 instead of ignored: the mean over no target would be NaN, and 0 times it too.
data::Batch prepared(const data::Batch& taken, Device device, const std::vector<std::string>& targets);

}  // namespace tessera::training
