#include "tools/gptlite/training/interrupt.h"

#include <atomic>
#include <csignal>

#include "tools/cli/exit_status.h"

namespace tessera::gptlite {
namespace {

constexpr int handled[] = {SIGINT, SIGTERM, SIGUSR1};
std::atomic<int> received = 0;  // also read by ranks that are other threads
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction previous[3];
stack_t previous_stack;
// Kernels compiled at run time (oneDNN's) keep values below the stack pointer, where a handler's frame would
// be: the handler has a stack of its own, with room for the widest registers.
alignas(64) char handler_stack[1 << 16];

extern "C" void note_signal(int signal) {
  if (received == SIGINT && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  received = signal;
}

}  // namespace

InterruptWatch::InterruptWatch() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  const stack_t stack{.ss_sp = handler_stack, .ss_flags = 0, .ss_size = sizeof handler_stack};
  sigaltstack(&stack, &previous_stack);
  for (int i = 0; i < 3; ++i) sigaction(handled[i], &action, &previous[i]);
}

InterruptWatch::~InterruptWatch() {
  for (int i = 0; i < 3; ++i) sigaction(handled[i], &previous[i], nullptr);
  sigaltstack(&previous_stack, nullptr);
}

int received_signal() {
  return received;
}

int exit_status_of(int signal) {
  if (signal == SIGINT) return tools::exit_interrupted;
  return signal == SIGTERM ? tools::exit_terminated : tools::exit_done;
}

const char* name_of_signal(int signal) {
  if (signal == SIGINT) return "Ctrl-C";
  return signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

SignalBlockScope::SignalBlockScope() {
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : handled) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  for (int i = 0; i < 3; ++i) was_blocked_[i] = sigismember(&before, handled[i]) == 1;
}

SignalBlockScope::~SignalBlockScope() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int i = 0; i < 3; ++i)
    if (!was_blocked_[i]) sigaddset(&signals, handled[i]);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace tessera::gptlite
