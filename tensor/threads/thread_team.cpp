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

/// The number of forks that led to this process, from the first team on.
std::atomic<uint32_t> forks{0};
/// The number of threads in all teams of this process, their callers included.
std::atomic<int> team_threads{0};

void count_forks() {
  static const int error = pthread_atfork(nullptr, nullptr, [] {
    forks.fetch_add(1, std::memory_order_relaxed);
    team_threads.store(0, std::memory_order_relaxed);
  });
  require<Error>(error == 0, "thread team: pthread_atfork failed with ", error);
}

bool may_spin() {
  return team_threads.load(std::memory_order_relaxed) <= available_cores();
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
  std::atomic<bool> failed{false};
  WaitWord unfinished;
};

struct ThreadTeam::Worker {
  WaitWord posted;  ///< the number of jobs given to this worker; changed once more to stop it
  bool stopping = false;
  std::exception_ptr failure;
  std::thread thread;

  void work(int number, Job& job) {
    for (uint32_t seen = 0;;) {
      seen = posted.wait_while(seen, may_spin());
      if (stopping) return;
      try {
        (*job.range)(number);
      } catch (...) {
        failure = std::current_exception();
        job.failed.store(true, std::memory_order_relaxed);
      }
      job.unfinished.count_down();
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : job_(std::make_unique<Job>()) {
  count_forks();
  forks_before_ = forks.load(std::memory_order_relaxed);
  team_threads.fetch_add(threads, std::memory_order_relaxed);
  const SignalsBlocked scope;
  try {
    for (int number = 1; number < threads; ++number) {
      auto worker = std::make_unique<Worker>();
      worker->thread = std::thread([w = worker.get(), number, job = job_.get()] { w->work(number, *job); });
      pthread_setname_np(worker->thread.native_handle(), text("team-", number).c_str());
      workers_.push_back(std::move(worker));
    }
  } catch (const std::system_error& error) {
    const int started = this->threads();
    stop();
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
  const int worker_count = ranges - 1;
  job_->range = &range;
  job_->unfinished.reset(static_cast<uint32_t>(worker_count));
  for (int i = 0; i < worker_count; ++i) workers_[i]->posted.set(workers_[i]->posted.value() + 1);
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
  job_->unfinished.wait_for_zero(may_spin());
  if (job_->failed.exchange(false, std::memory_order_relaxed))
    for (int i = 0; i < worker_count; ++i) {
      const std::exception_ptr of_worker = std::exchange(workers_[i]->failure, nullptr);
      if (!failure) failure = of_worker;
    }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera
