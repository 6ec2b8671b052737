#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/datasets/dataset_batches.h"
#include "data/datasets/stream.h"
#include "data/loader.h"

namespace tessera::data {

/// The batches of a dataset, an epoch in each pass of a range-for, as PyTorch's DataLoader:
///
///     data::DataLoader loader(Spirals(1000), {.batch_size = 64, .shuffle = true});
///     for (int epoch = 0; epoch < 20; ++epoch)
///       for (auto& [x, y] : loader) ...
///
/// The first pass is epoch 0, the next one epoch 1, also where one was left early; `set_epoch` continues a
/// run. The order is a function of (seed, epoch), and the content of a batch one of its step, so neither
/// workers nor other random numbers change it. The last batch of an epoch may be smaller. A Loader over
/// DatasetBatches begins at any step, not at epochs only.
class DataLoader {
 public:
  /// How examples become batches. PyTorch's names, except `workers` (num_workers) and `collate` (collate_fn).
  struct Options {
    int64_t batch_size = 1;  ///< examples of a batch, of all ranks together
    bool shuffle = false;    ///< a different order in each epoch
    uint64_t seed = 1337;    ///< of these orders, and of the random context (dropout)
    bool drop_last = false;  ///< whether an epoch's incomplete last batch is left out
    int workers = 0;         ///< threads that make batches ahead; 0: the calling thread makes them
    /// This rank, of `world_size` ranks, takes a contiguous share of every batch (DatasetBatches).
    /// @{
    int rank = 0, world_size = 1;
    /// @}
    Collate collate = stack_examples;  ///< combines examples; called from several threads with workers
    /// The order of the examples, instead of `shuffle`: weighted, by length, or of the user's own.
    std::shared_ptr<const Sampler> sampler = nullptr;
    /// Of a stream: examples from which the next one is drawn at random (StreamBatches).
    int64_t shuffle_buffer = 0;
    std::vector<std::string> targets = {"y"};  ///< fields that losses skip in padded rows (DatasetBatches)
  };

  /// Moves the dataset in, copies a named one, or shares it. Throws as DatasetBatches, and ConfigError for a
  /// batch_size below 1, a negative number of workers, a null pointer, `shuffle` with a sampler, a
  /// `shuffle_buffer` without a stream, and `shuffle` or a sampler with one.
  /// @{
  template <std::derived_from<Dataset> D>
  explicit DataLoader(D dataset) : DataLoader(std::move(dataset), Options()) {}
  template <std::derived_from<Dataset> D>
  DataLoader(D dataset, const Options& options)
      : DataLoader(std::make_shared<const D>(std::move(dataset)), options) {}
  template <std::derived_from<Dataset> D, std::integral Size>
  DataLoader(D dataset, Size batch_size, bool shuffle = false)
      : DataLoader(std::move(dataset),
                   Options{.batch_size = static_cast<int64_t>(batch_size), .shuffle = shuffle}) {}
  DataLoader(std::shared_ptr<const Dataset> dataset, const Options& options);
  template <std::derived_from<StreamDataset> S>
  DataLoader(S stream, const Options& options)
      : DataLoader(std::make_shared<const S>(std::move(stream)), options) {}
  DataLoader(std::shared_ptr<const StreamDataset> stream, const Options& options);
  /// @}

  /// How examples become batches.
  const Options& options() const { return options_; }
  /// A loader of the same data with other options, at epoch 0. Throws as the constructors.
  DataLoader with(const Options& options) const {
    return stream_ ? DataLoader(stream_, options) : DataLoader(dataset_, options);
  }

  /// Batches of an epoch: `len(loader)` of PyTorch; -1 for a stream: its length is known when its end is
  /// reached.
  int64_t size() const { return batches_ ? batches_->batches_per_epoch() : -1; }
  /// The epoch of the next pass, from 0.
  /// @{
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch) { epoch_ = epoch; }
  /// @}

  /// One pass over an epoch.
  class Iterator {
   public:
    /// The types that std::iterator_traits requires of an input iterator.
    /// @{
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;
    /// @}

    /// Takes the first batch of `epoch`.
    explicit Iterator(std::unique_ptr<Loader> epoch) : loader_(std::move(epoch)), at_(loader_->begin()) {}
    /// The batch taken last; valid until the next `++`, and not at the end.
    /// @{
    const Batch& operator*() const { return *at_; }
    const Batch* operator->() const { return at_.operator->(); }
    /// @}
    /// Takes the next batch. Throws as `Loader::next`.
    /// @{
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    void operator++(int) { ++at_; }
    /// @}
    /// Whether the epoch has ended.
    bool operator==(std::default_sentinel_t end) const { return at_ == end; }

   private:
    std::unique_ptr<Loader> loader_;
    Loader::Iterator at_;
  };
  /// Begins the pass over the next epoch. Passes do not affect each other.
  Iterator begin();
  /// The end of every pass.
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const Dataset> dataset_;         ///< null for a stream
  std::shared_ptr<const DatasetBatches> batches_;  ///< null for a stream
  std::shared_ptr<const StreamDataset> stream_;    ///< null for a dataset
  Options options_;
  int64_t epoch_ = 0;
};

}  // namespace tessera::data
