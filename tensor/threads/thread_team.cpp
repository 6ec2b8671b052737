#include "tensor/threads/thread_team.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tensor/error.h"
#include "tensor/threads/cores.h"
#include "tensor/threads/wait_word.h"

namespace tessera {
namespace {

/// The number of forks that led to this process, from the first team on.
std::atomic<uint32_t> forks{0};
/// The number of threads in all teams of this process, their callers included.
std::atomic<int> team_threads{0};

/// The places of the pinned teams of this process.
class PinnedTeams {
 public:
  int take(int threads) {
    const std::lock_guard lock(mutex_);
    return places_.take(threads);
  }
  void leave(int first) {
    const std::lock_guard lock(mutex_);
    places_.leave(first);
  }

 private:
  std::mutex mutex_;
  TeamPlaces places_;
};
PinnedTeams* pinned_teams = new PinnedTeams;  // teams of other threads may end after static objects

void count_forks() {
  static const int error = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    team_threads.store(0, std::memory_order_relaxed);
    pinned_teams = new PinnedTeams;  // another thread may have held the lock
  });
  require<Error>(error == 0, "thread team: pthread_atfork failed with ", error);
}

bool may_spin() {
  return team_threads.load(std::memory_order_relaxed) <= available_cores();
}

// Threads form a tree: thread t starts threads 4 t + 1 to 4 t + 4.
constexpr int fan_out = 4;
int first_below(int thread) {
  return fan_out * thread + 1;
}
int end_below(int thread, int ranges) {
  return std::min(first_below(thread) + fan_out, ranges);
}

void pin(pthread_t thread, int processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(processor, &mask);
  // Where the system refuses, the thread moves as without pinning.
  pthread_setaffinity_np(thread, sizeof mask, &mask);
}

/// While the object lives, blocks the signals that any thread can handle; a thread that is made meanwhile
/// keeps them blocked. Signals raised by an instruction stay open: blocked, they would end the process
/// without a message.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace

/// The work of one call of `run`. Written by the caller before it posts to the workers, and not again before
/// all have counted down.
struct ThreadTeam::Job {
  const FunctionRef<void(int)>* range = nullptr;
  int ranges = 0;
  std::atomic<bool> failed{false};
  WaitWord unfinished;  ///< threads that the caller has started
};

struct ThreadTeam::Worker {
  WaitWord posted;      ///< the number of jobs given to this worker; changed once more to stop it
  WaitWord unfinished;  ///< threads that this one has started
  bool stopping = false;
  std::exception_ptr failure;
  std::thread thread;
};

WaitWord& ThreadTeam::unfinished_below(int thread) {
  return thread == 0 ? job_->unfinished : workers_[static_cast<size_t>(thread) - 1]->unfinished;
}

void ThreadTeam::start_below(int thread) {
  const int first = first_below(thread), end = end_below(thread, job_->ranges);
  if (first >= end) return;
  unfinished_below(thread).reset(static_cast<uint32_t>(end - first));
  for (int below = first; below < end; ++below) {
    WaitWord& posted = workers_[static_cast<size_t>(below) - 1]->posted;
    posted.set(posted.value() + 1);
  }
}

void ThreadTeam::wait_below(int thread) {
  if (first_below(thread) < job_->ranges) unfinished_below(thread).wait_for_zero(may_spin());
}

void ThreadTeam::work(int thread, Worker& self) {
  for (uint32_t seen = 0;;) {
    seen = self.posted.wait_while(seen, may_spin());
    if (self.stopping) return;
    start_below(thread);
    try {
      (*job_->range)(thread);
    } catch (...) {
      self.failure = std::current_exception();
      job_->failed.store(true, std::memory_order_relaxed);
    }
    wait_below(thread);
    unfinished_below((thread - 1) / fan_out).count_down();
  }
}

ThreadTeam::ThreadTeam(int threads) : job_(std::make_unique<Job>()) {
  count_forks();
  forks_before_ = forks.load(std::memory_order_relaxed);
  undo_openmp_binding();  // threads inherit this one's mask
  available_cores();      // asked for by workers, which may have other masks
  std::vector<int> processors;
  if (pins_threads()) {
    place_ = pinned_teams->take(threads);
    // Processes of one machine that share a mask have as many threads each.
    const int first = process_of_machine() * threads + *place_;
    processors = processors_of_team(allowed_processors(), first, threads);
  }
  team_threads.fetch_add(threads, std::memory_order_relaxed);
  const SignalsBlocked scope;
  // Workers find each other in this list, from their first job on.
  workers_.reserve(static_cast<size_t>(threads) - 1);
  try {
    for (int number = 1; number < threads; ++number) {
      workers_.push_back(std::make_unique<Worker>());
      std::thread& thread = workers_.back()->thread;
      try {
        thread = std::thread([this, number, self = workers_.back().get()] { work(number, *self); });
      } catch (...) {
        workers_.pop_back();
        throw;
      }
      if (!processors.empty()) pin(thread.native_handle(), processors[static_cast<size_t>(number)]);
      pthread_setname_np(thread.native_handle(), text("team-", number).c_str());
    }
  } catch (const std::system_error& error) {
    const int started = this->threads();
    stop();
    if (place_) pinned_teams->leave(*place_);
    team_threads.fetch_sub(threads, std::memory_order_relaxed);
    throw Error(text("thread team: expected ", threads, " threads, the system gave ", started, " (",
                     error.what(), ")"));
  }
}

ThreadTeam::~ThreadTeam() {
  if (is_from_before_fork()) {
    leak_workers();
    return;
  }
  const int ended = threads();
  stop();
  if (place_) pinned_teams->leave(*place_);
  team_threads.fetch_sub(ended, std::memory_order_relaxed);
}

/// Keeps the objects of threads that do not exist, untouched, until the process ends.
void ThreadTeam::leak_workers() {
  static auto* const leaked = new std::vector<std::pair<std::unique_ptr<Job>, decltype(workers_)>>;
  leaked->emplace_back(std::move(job_), std::move(workers_));
}

void ThreadTeam::stop() noexcept {
  for (auto& worker : workers_) {
    worker->stopping = true;
    worker->posted.set(worker->posted.value() + 1);
  }
  for (auto& worker : workers_) worker->thread.join();
  workers_.clear();
}

bool ThreadTeam::is_from_before_fork() const {
  return forks_before_ != forks.load(std::memory_order_relaxed);
}

void ThreadTeam::run(int ranges, FunctionRef<void(int)> range) {
  job_->range = &range;
  job_->ranges = ranges;
  start_below(0);
  std::exception_ptr failure;
  try {
    range(0);
  } catch (...) {
    failure = std::current_exception();
  }
  require<Error>(
      !is_from_before_fork(),
      "thread team: the process forked inside a parallel loop, and the threads of its other ranges ",
      "exist in the parent alone");
  wait_below(0);
  if (job_->failed.exchange(false, std::memory_order_relaxed))
    for (int i = 0; i < ranges - 1; ++i) {
      const std::exception_ptr of_worker = std::exchange(workers_[i]->failure, nullptr);
      if (!failure) failure = of_worker;
    }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
