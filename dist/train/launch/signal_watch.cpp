#include "dist/train/launch/signal_watch.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>

#include "tensor/error.h"

namespace tessera::training {
namespace {

std::atomic<int> newest = 0, count = 0;  // of all signals that were recorded
static_assert(std::atomic<int>::is_always_lock_free);
/// The count when this thread's oldest watch was made: another rank may still have a watch of an earlier run.
thread_local int first_count = 0;
thread_local int watches_of_thread = 0;

extern "C" void record_signal(int signal) {
  if (newest == SIGINT && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  newest = signal;
  ++count;
}

/// A signal that is recorded.
struct Handled {
  int signal;
  int watches;  // that record it
  struct sigaction previous;
};
std::mutex handled_mutex;
std::vector<Handled> handled;  // under the mutex

void handle(int signal) {
  const auto found =
      std::find_if(handled.begin(), handled.end(), [&](const Handled& h) { return h.signal == signal; });
  if (found != handled.end()) {
    ++found->watches;
    return;
  }
  struct sigaction action = {};
  action.sa_handler = record_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  Handled added{.signal = signal, .watches = 1, .previous = {}};
  require<ConfigError>(sigaction(signal, &action, &added.previous) == 0, "signals: expected signals that a ",
                       "process can handle, got ", signal);
  handled.push_back(added);
}

void leave(int signal) {
  const auto found =
      std::find_if(handled.begin(), handled.end(), [&](const Handled& h) { return h.signal == signal; });
  if (found == handled.end() || --found->watches > 0) return;
  sigaction(signal, &found->previous, nullptr);
  handled.erase(found);
}

}  // namespace

// Kernels compiled at run time (oneDNN's) keep values below the stack pointer, where a handler's frame would
// be: the handler has a stack of its own, with room for the widest registers.
struct SignalWatch::Stack {
  Stack() {
    const stack_t stack{.ss_sp = bytes, .ss_flags = 0, .ss_size = sizeof bytes};
    sigaltstack(&stack, &previous);
  }
  ~Stack() { sigaltstack(&previous, nullptr); }
  alignas(64) char bytes[1 << 16];
  stack_t previous = {};
};

SignalWatch::SignalWatch(const std::vector<int>& signals) : stack_(std::make_unique<Stack>()) {
  const std::lock_guard lock(handled_mutex);
  if (handled.empty()) newest = 0;
  if (watches_of_thread == 0) first_count = count;
  try {
    for (const int signal : signals) {
      handle(signal);
      signals_.push_back(signal);
    }
  } catch (...) {
    for (const int signal : signals_) leave(signal);
    throw;
  }
  ++watches_of_thread;
}

SignalWatch::~SignalWatch() {
  const std::lock_guard lock(handled_mutex);
  for (const int signal : signals_) leave(signal);
  --watches_of_thread;
}

int SignalWatch::received() {
  return watches_of_thread == 0 || count == first_count ? 0 : newest.load();
}

}  // namespace tessera::training
