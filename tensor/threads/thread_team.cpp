#include "tensor/threads/thread_team.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "tensor/error.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/wait_word.h"

namespace tessera {
namespace {

/// Forks that led to this process, as far as it was there.
std::atomic<uint32_t> forks{0};
/// Threads of all teams of this process, their callers included.
std::atomic<int> team_threads{0};

void watch_forks() {
  static const int watched = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    team_threads.store(0, std::memory_order_relaxed);
  });
  require<Error>(watched == 0, "thread team: pthread_atfork failed with ", watched);
}

bool may_spin() {
  return team_threads.load(std::memory_order_relaxed) <= available_cores();
}

/// Blocks the signals that can be handled anywhere while it lives, as a thread born meanwhile does for good.
/// Those that an instruction itself raises stay: blocked, they would end the process without a word.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, raised);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace

/// What one run hands to its workers. Written by the caller before it posts to them, and not again before
/// all have counted down.
struct ThreadTeam::Run {
  const FunctionRef<void(int)>* part = nullptr;
  std::atomic<bool> failed{false};
  WaitWord unfinished;
};

struct ThreadTeam::Worker {
  WaitWord posted;  ///< number of runs given to this worker; changed once more to stop it
  bool stopping = false;
  std::exception_ptr failure;
  std::thread thread;

  void work(int number, Run& run) {
    for (uint32_t seen = 0;;) {
      seen = posted.wait_while(seen, may_spin());
      if (stopping) return;
      try {
        (*run.part)(number);
      } catch (...) {
        failure = std::current_exception();
        run.failed.store(true, std::memory_order_relaxed);
      }
      run.unfinished.count_down();
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : run_(std::make_unique<Run>()) {
  watch_forks();
  born_ = forks.load(std::memory_order_relaxed);
  team_threads.fetch_add(threads, std::memory_order_relaxed);
  const SignalsBlocked scope;
  try {
    for (int number = 1; number < threads; ++number) {
      auto worker = std::make_unique<Worker>();
      worker->thread = std::thread([w = worker.get(), number, run = run_.get()] { w->work(number, *run); });
      pthread_setname_np(worker->thread.native_handle(), text("team-", number).c_str());
      workers_.push_back(std::move(worker));
    }
  } catch (const std::system_error& error) {
    const int had = this->threads();
    stop();
    team_threads.fetch_sub(threads, std::memory_order_relaxed);
    throw Error(
        text("threads: ", threads, " were asked for, and the system gave ", had, " (", error.what(), ")"));
  }
}

ThreadTeam::~ThreadTeam() {
  if (lost_to_fork()) {
    leave_behind();
    return;
  }
  const int had = threads();
  stop();
  team_threads.fetch_sub(had, std::memory_order_relaxed);
}

/// Nothing of a thread that does not exist may be touched: what belongs to the workers stays as it is for
/// good.
void ThreadTeam::leave_behind() {
  static auto* const left = new std::vector<std::pair<std::unique_ptr<Run>, decltype(workers_)>>;
  left->emplace_back(std::move(run_), std::move(workers_));
}

void ThreadTeam::stop() noexcept {
  for (auto& worker : workers_) {
    worker->stopping = true;
    worker->posted.set(worker->posted.value() + 1);
  }
  for (auto& worker : workers_) worker->thread.join();
  workers_.clear();
}

bool ThreadTeam::lost_to_fork() const {
  return born_ != forks.load(std::memory_order_relaxed);
}

void ThreadTeam::run(int parts, FunctionRef<void(int)> part) {
  const int helpers = parts - 1;
  run_->part = &part;
  run_->unfinished.reset(static_cast<uint32_t>(helpers));
  for (int i = 0; i < helpers; ++i) workers_[i]->posted.set(workers_[i]->posted.value() + 1);
  std::exception_ptr failure;
  try {
    part(0);
  } catch (...) {
    failure = std::current_exception();
  }
  require<Error>(!lost_to_fork(),
                 "threads: the process forked inside a parallel loop, whose other parts stayed ",
                 "with the parent");
  run_->unfinished.wait_for_zero(may_spin());
  if (run_->failed.exchange(false, std::memory_order_relaxed))
    for (int i = 0; i < helpers; ++i) {
      const std::exception_ptr of_worker = std::exchange(workers_[i]->failure, nullptr);
      if (!failure) failure = of_worker;
    }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
