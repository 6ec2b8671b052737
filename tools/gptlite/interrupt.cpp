#include "tools/gptlite/interrupt.h"

#include <atomic>
#include <csignal>

#include "tools/cli/exit_status.h"

namespace tessera::gptlite {
namespace {

constexpr int watched[] = {SIGINT, SIGTERM, SIGUSR1};
std::atomic<int> received = 0;  // ranks that are threads read it, too
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction previous[3];
stack_t previous_stack;
// Kernels compiled at run time (oneDNN's) keep numbers below the stack pointer, where a handler's frame would
// be put: it gets a stack of its own, with room for the widest registers.
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
  for (int i = 0; i < 3; ++i) sigaction(watched[i], &action, &previous[i]);
}

InterruptWatch::~InterruptWatch() {
  for (int i = 0; i < 3; ++i) sigaction(watched[i], &previous[i], nullptr);
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

SignalShield::SignalShield() {
  sigset_t wanted, before;
  sigemptyset(&wanted);
  for (const int signal : watched) sigaddset(&wanted, signal);
  pthread_sigmask(SIG_BLOCK, &wanted, &before);
  for (int i = 0; i < 3; ++i) blocked_[i] = sigismember(&before, watched[i]) == 1;
}

SignalShield::~SignalShield() {
  sigset_t ours;
  sigemptyset(&ours);
  for (int i = 0; i < 3; ++i)
    if (!blocked_[i]) sigaddset(&ours, watched[i]);
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
}

}  // namespace tessera::gptlite
