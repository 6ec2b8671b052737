#include "data/loader.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/profile/span.h"
#include "tensor/random/random_context.h"
#include "tensor/threads/parallel.h"

namespace tessera::data {

/// State shared by the loader and its workers; each keeps it alive. Batches are stored in a ring, at step
/// modulo its length, so that they are taken in order whatever the order in which they are finished.
struct Loader::Shared {
  struct Slot {
    bool full = false;
    std::optional<Batch> batch;  ///< nothing where the source has ended
    std::exception_ptr error;
  };

  std::shared_ptr<const BatchSource> source;
  intrusive_ptr<MemoryAccount> account;
  int64_t last = 0;

  std::mutex mutex;
  std::condition_variable ready, slot_freed, ended;
  std::vector<Slot> ring;
  int64_t next_made = 0, next_taken = 0;
  int running = 0;
  bool stopping = false;

  Slot& slot(int64_t step) { return ring[static_cast<size_t>(step) % ring.size()]; }

  /// The loop of a worker.
  void work() {
    const AccountScope scope(account);
    set_num_threads(1);
    std::unique_lock lock(mutex);
    while (true) {
      slot_freed.wait(lock, [this] {
        return stopping || next_made == last || next_made < next_taken + static_cast<int64_t>(ring.size());
      });
      if (stopping || next_made == last) break;
      const int64_t step = next_made++;
      lock.unlock();
      Slot made{true, std::nullopt, nullptr};
      try {
        made.batch = source->try_batch(step);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      slot(step) = std::move(made);
      ready.notify_one();
    }
    --running;
    ended.notify_one();
  }
};

/// The threads that make batches, and the process that has them.
struct Loader::Workers {
  std::vector<std::thread> threads;
  pid_t process = ::getpid();
};

namespace {

/// Waits until `condition` holds; false when `timeout` (zero: none) expires first.
template <class Condition>
bool wait(std::condition_variable& variable, std::unique_lock<std::mutex>& lock,
          std::chrono::milliseconds timeout, Condition condition) {
  if (timeout.count() > 0) return variable.wait_for(lock, timeout, condition);
  variable.wait(lock, condition);
  return true;
}

}  // namespace

Loader::Loader(std::shared_ptr<const BatchSource> source, const Options& options)
    : shared_(std::make_shared<Shared>()),
      workers_(std::make_unique<Workers>()),
      options_(options),
      step_(options.first_step) {
  const int64_t steps = source->steps();
  const int64_t end = steps < 0 ? std::numeric_limits<int64_t>::max() : steps;
  const int64_t last = options.last_step < 0 ? end : std::min(options.last_step, end);
  require<ConfigError>(options.first_step >= 0, "loader: first step ", options.first_step,
                       ", expected at least 0");
  require<ConfigError>(options.workers >= 0, "loader: ", options.workers, " workers, expected at least 0");
  require<ConfigError>(options.prefetch >= 1, "loader: prefetch ", options.prefetch, ", expected at least 1");
  shared_->source = std::move(source);
  shared_->account = current_account();
  shared_->last = std::max(last, step_);
  shared_->next_made = shared_->next_taken = step_;
  shared_->ring.resize(static_cast<size_t>(options.prefetch));
  try {
    for (int i = 0; i < options.workers; ++i) {
      workers_->threads.emplace_back([shared = shared_] { shared->work(); });
      const std::lock_guard lock(shared_->mutex);
      ++shared_->running;
    }
  } catch (...) {
    stop();
    throw;
  }
}

Loader::~Loader() {
  end_pass();
  stop();
}

bool Loader::in_forked_child() const {
  return !workers_->threads.empty() && workers_->process != ::getpid();
}

void Loader::stop() noexcept {
  if (in_forked_child()) {
    // The threads do not exist in this process: neither they nor what they wait on may be destroyed.
    static auto* const leaked = new std::vector<std::pair<std::shared_ptr<Shared>, std::unique_ptr<Workers>>>;
    leaked->emplace_back(std::move(shared_), std::move(workers_));
    return;
  }
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->slot_freed.notify_all();
  const bool all_ended =
      wait(shared_->ended, lock, options_.timeout, [this] { return shared_->running == 0; });
  lock.unlock();
  for (std::thread& worker : workers_->threads) all_ended ? worker.join() : worker.detach();
  workers_->threads.clear();
}

std::optional<Batch> Loader::next() {
  const SpanScope span(SpanKind::phase, "data");
  if (step_ >= shared_->last) return end_pass();
  require<DataError>(!in_forked_child(), "loader of ", shared_->source->name(),
                     ": its workers are threads of process ", workers_->process, ", and this is process ",
                     ::getpid(), ", forked from it; make a new loader with first_step = ", step_);
  std::optional<Batch> batch = workers_->threads.empty() ? shared_->source->try_batch(step_) : take();
  if (!batch) return end_pass();
  begin_random_step(options_.seed, step_, batch->samples);
  random_step_ = step_++;
  return batch;
}

/// Leaves the random context of this loader's last batch: what comes after the loop has other samples.
std::nullopt_t Loader::end_pass() {
  RandomContext& context = random_context();
  if (random_step_ >= 0 && context.seed == options_.seed && context.step == random_step_)
    context.samples.clear();
  random_step_ = -1;
  return std::nullopt;
}

/// The batch of step_, from the ring; nothing where the source has ended, also at further calls.
std::optional<Batch> Loader::take() {
  std::unique_lock lock(shared_->mutex);
  Shared::Slot& slot = shared_->slot(step_);
  if (!wait(shared_->ready, lock, options_.timeout, [&slot] { return slot.full; }))
    throw DataError(text("loader of ", shared_->source->name(), ": the batch of step ", step_,
                         " was not ready after ", options_.timeout.count(), " ms"));
  if (slot.error) std::rethrow_exception(slot.error);
  if (!slot.batch) return std::nullopt;
  slot.full = false;
  std::optional<Batch> batch = std::exchange(slot.batch, std::nullopt);
  ++shared_->next_taken;
  shared_->slot_freed.notify_one();
  return batch;
}

}  // namespace tessera::data
