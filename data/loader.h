#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch.h"

namespace tessera::data {

/// Returns the batches of a source in order, prefetched by worker threads:
///
///     data::Loader loader(source, {.first_step = 0, .last_step = 2000});
///     for (const data::Batch& batch : loader) ...
///
/// A batch depends on its step only, so neither the number of workers nor their timing changes the result,
/// and a loader that begins at step s continues one that stopped there. Taking a batch sets the calling
/// thread's random context to (seed, step, samples), which keys dropout, until the loop has ended. Batches
/// are taken by one thread. A child process made by `fork` does not have its parent's workers: there, a
/// loader with workers only throws; make a new one at `step()`.
class Loader {
 public:
  /// The steps, and how they are prefetched.
  struct Options {
    /// Steps first_step .. last_step - 1, of those that the source has; -1 for all from first_step on.
    /// @{
    int64_t first_step = 0, last_step = -1;
    /// @}
    /// Threads that make batches; 0: the calling thread makes them, which is fastest for windows of text
    /// (copying one takes less time than waking a thread).
    int workers = 1;
    /// The largest number of batches made ahead.
    int64_t prefetch = 2;
    /// Time limit of a wait for a batch, also for a worker's last one in the destructor; zero: no limit.
    std::chrono::milliseconds timeout{60'000};
    /// The random context's seed.
    uint64_t seed = 1337;
  };
  /// Starts the workers. Throws ConfigError for options out of range.
  /// @{
  explicit Loader(std::shared_ptr<const BatchSource> source) : Loader(std::move(source), Options()) {}
  Loader(std::shared_ptr<const BatchSource> source, const Options& options);
  /// @}
  /// Returns when the workers have ended. One that is still inside the source after the timeout is detached:
  /// it shares the source, accesses nothing else, and ends when the source returns.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; nothing after the last. Rethrows what the source threw while making it, at its step
  /// and at every further call. Throws DataError when it is not ready in time, or in a process forked from
  /// that of the workers.
  std::optional<Batch> next();
  /// The step of the batch that `next` returns: a checkpoint saves it.
  int64_t step() const { return step_; }

  /// One pass of a range-for, from step() on.
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

    /// Takes the next batch of `loader`, which must outlive the iterator.
    explicit Iterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
    /// The batch taken last; valid until the next `++`, and not at the end.
    /// @{
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    /// @}
    /// Frees the batch and takes the next one. Throws as `next`.
    Iterator& operator++() {
      batch_.reset();
      batch_ = loader_->next();
      return *this;
    }
    /// Whether the steps have ended.
    bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

   private:
    Loader* loader_;
    std::optional<Batch> batch_;
  };
  /// Takes the batch of step() and begins a pass with it.
  Iterator begin() { return Iterator(*this); }
  /// The end of every pass.
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Shared;
  std::nullopt_t end_pass();
  std::optional<Batch> take();
  void stop() noexcept;
  bool in_forked_child() const;

  std::shared_ptr<Shared> shared_;
  struct Workers;
  std::unique_ptr<Workers> workers_;
  Options options_;
  int64_t step_;
  int64_t random_step_ = -1;  ///< the step that the random context was set to; -1: none
};

}  // namespace tessera::data
