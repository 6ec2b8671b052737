#include "dist/comm/remote/thread.h"

#include <pthread.h>

#include <csignal>
#include <exception>
#include <optional>
#include <utility>

#include "dist/comm/interface/errors.h"
#include "dist/comm/remote/loop.h"

namespace tessera::dist::remote {

using std::chrono::milliseconds;

/// What the rank's thread and the remote thread share.
struct Thread::State {
  std::mutex mutex;
  std::condition_variable changed;
  Loop::Requests requests;  ///< what the loop has not taken yet
  std::exception_ptr start_failure;
  std::string broken;
  int rank = 0, size = 0;
  bool started = false, ended = false;

  template <class Change>
  void request(Change change) {
    {
      const std::lock_guard lock(mutex);
      change(requests);
    }
    changed.notify_all();
  }

  /// Makes a request with a `done`, and waits until the loop has called it or has ended.
  template <class Change>
  bool request_and_wait(Change change, std::optional<milliseconds> timeout = {}) {
    const auto done = std::make_shared<bool>(false);
    request([&](Loop::Requests& all) {
      change(all, [this, done] {
        const std::lock_guard lock(mutex);
        *done = true;
        changed.notify_all();
      });
    });
    std::unique_lock lock(mutex);
    const auto is_over = [&] { return *done || ended; };
    if (timeout)
      changed.wait_for(lock, *timeout, is_over);
    else
      changed.wait(lock, is_over);
    return *done;
  }

  // The life of the remote thread.
  std::unique_ptr<Loop> start(const std::function<std::unique_ptr<Wire>()>& make_wire);
  Loop::Requests next_requests(const Loop& loop);
  void run_turns(Loop& loop);
  void end();
};

namespace {

/// Signal handlers run in the program's own threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

/// Makes the loop, and reports to the constructor that the thread has started; null where that failed.
std::unique_ptr<Loop> Thread::State::start(const std::function<std::unique_ptr<Wire>()>& make_wire) {
  std::unique_ptr<Loop> loop;
  std::exception_ptr failure;
  try {
    loop = std::make_unique<Loop>(make_wire());
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    start_failure = failure;
    if (loop) {
      rank = loop->wire().rank();
      size = loop->wire().size();
    }
    started = true;
    ended = !loop;
  }
  changed.notify_all();
  return loop;
}

/// The requests since the last turn, after the loop's pause.
Loop::Requests Thread::State::next_requests(const Loop& loop) {
  std::unique_lock lock(mutex);
  if (const auto pause = loop.pause(); pause.count() > 0 && requests.empty()) {
    if (loop.is_idle())
      changed.wait_for(lock, pause, [&] { return !requests.empty(); });
    else {
      lock.unlock();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
  }
  return std::exchange(requests, {});
}

/// Turns of the loop up to the last one.
void Thread::State::run_turns(Loop& loop) {
  try {
    while (loop.run_once(next_requests(loop))) {
    }
  } catch (const std::exception& error) {
    loop.report_broken(error.what());
    const std::lock_guard lock(mutex);
    broken = error.what();
  }
}

void Thread::State::end() {
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
}

void Thread::run(const std::shared_ptr<State>& state,
                 const std::function<std::unique_ptr<Wire>()>& make_wire) {
  block_signals();
  pthread_setname_np(pthread_self(), "tessera-remote");
  std::unique_ptr<Loop> loop = state->start(make_wire);
  if (!loop) return;
  state->run_turns(*loop);
  // MPI may still write into its buffers, so it is kept; reachable from here it is no leak.
  static std::vector<Loop*>& kept = *new std::vector<Loop*>;
  kept.push_back(loop.release());
  state->end();
}

Thread::Thread(std::function<std::unique_ptr<Wire>()> make_wire, milliseconds timeout)
    : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_, make = std::move(make_wire)] { run(state, make); });
  std::unique_lock lock(state_->mutex);
  const bool in_time = state_->changed.wait_for(lock, timeout, [&] { return state_->started; });
  if (!in_time) thread_.detach();
  require<CommunicationError>(in_time, "expected all ranks of the job in their launch within ",
                              seconds_text(timeout), ": at least one did not reach it");
  if (!state_->start_failure) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(state_->start_failure);
}

Thread::~Thread() {
  state_->request([](Loop::Requests& requests) { requests.stop = true; });
  std::unique_lock lock(state_->mutex);
  const bool ended = state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->ended; });
  lock.unlock();
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

int Thread::rank() const {
  return state_->rank;
}

int Thread::size() const {
  return state_->size;
}

void Thread::post(std::shared_ptr<Exchange> exchange) {
  state_->request([&](Loop::Requests& requests) { requests.posted.push_back(std::move(exchange)); });
}

void Thread::abandon(std::shared_ptr<Exchange> exchange) {
  state_->request([&](Loop::Requests& requests) { requests.abandoned.push_back(std::move(exchange)); });
}

void Thread::begin_launch(Launch launch) {
  state_->request(
      [&](Loop::Requests& requests) { requests.launch = std::make_unique<Launch>(std::move(launch)); });
}

void Thread::end_launch(uint64_t number) {
  state_->request_and_wait(
      [number](Loop::Requests& requests, std::function<void()> done) {
        requests.end_launch = std::move(done);
        requests.ended_launch = number;
      },
      std::chrono::seconds(1));
}

void Thread::send_abort_message(const RunFailure& failure) {
  state_->request_and_wait(
      [&](Loop::Requests& requests, std::function<void()> done) {
        requests.abort_message = failure;
        requests.abort_message_sent = std::move(done);
      },
      std::chrono::seconds(1));
}

bool Thread::leave() {
  return state_->request_and_wait(
      [](Loop::Requests& requests, std::function<void()> done) { requests.leave = std::move(done); });
}

bool Thread::finish(milliseconds timeout) {
  return state_->request_and_wait(
      [](Loop::Requests& requests, std::function<void()> done) { requests.finish = std::move(done); },
      timeout);
}

std::string Thread::broken() const {
  const std::lock_guard lock(state_->mutex);
  return state_->broken;
}

}  // namespace tessera::dist::remote
