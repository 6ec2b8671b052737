#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/collate.h"

namespace tessera::data {

/// The examples of one epoch, one after another.
class ExampleStream {
 public:
  virtual ~ExampleStream() = default;
  /// The next example; nothing after the last, however often it is called.
  virtual std::optional<Example> next() = 0;
  /// Passes over the next `count` examples. Returns how many there were. A stream that can seek overrides it.
  virtual int64_t skip(int64_t count);
};

/// Data that is read in order: a file, a pipe, a generator, of a size that need not be known. PyTorch's
/// IterableDataset.
class StreamDataset {
 public:
  virtual ~StreamDataset() = default;
  /// A stream from the epoch's first example. Two streams of one epoch give the same examples: every rank
  /// opens its own, and a resumed run opens it again. Random numbers without a name (`rand`, `randint`, ...)
  /// drawn in `next` are a function of (seed, epoch, index of the example).
  virtual std::unique_ptr<ExampleStream> open(int64_t epoch) const = 0;
  /// Its name in error messages.
  virtual std::string name() const { return "stream"; }
};

/// Batches of a stream. The batch of a step is the same on every call, as for every source: steps are asked
/// for in order as a rule, and a step that lies before reopens the stream of its epoch and passes over what
/// comes before it. An incomplete last batch of an epoch is smaller, and on several ranks padded: sample i of
/// a batch is on rank i / (batch_size / world_size) as in a full one, so the last ranks may have padding
/// only. One thread at a time reads the stream, so more than one worker of a loader does not help.
class StreamBatches : public BatchSource {
 public:
  /// The batches, and this rank's share of them.
  struct Options {
    int64_t batch_size = 1;  ///< examples per step, of all ranks together
    /// Examples from which the next one is drawn at random: 0 or 1 keeps the stream's order. A larger buffer
    /// mixes better and holds more memory.
    int64_t shuffle_buffer = 0;
    uint64_t seed = 1337;                      ///< of that order, and of random numbers drawn in `next`
    bool drop_last = false;                    ///< whether an epoch's incomplete last batch is left out
    std::vector<std::string> targets = {"y"};  ///< as in DatasetBatches
    int64_t first_epoch = 0;                   ///< the epoch of step 0
    int64_t epochs = 1;                        ///< how many; -1 for no end
    /// This rank, of `world_size` ranks, takes a contiguous share of every batch.
    /// @{
    int rank = 0, world_size = 1;
    /// @}
    Collate collate = stack_examples;  ///< combines examples
  };
  /// Throws ConfigError for options out of range and a null pointer.
  StreamBatches(std::shared_ptr<const StreamDataset> stream, const Options& options);
  ~StreamBatches() override;

  /// Throws DataError past the end, and for an epoch without a batch.
  Batch batch(int64_t step) const override;
  std::optional<Batch> try_batch(int64_t step) const override;
  bool may_end() const override;
  std::string name() const override { return stream_->name(); }

 private:
  struct State;

  std::shared_ptr<const StreamDataset> stream_;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::data
