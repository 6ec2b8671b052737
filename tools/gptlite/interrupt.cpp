#include "tools/gptlite/interrupt.h"

#include <csignal>

namespace tessera::gptlite {
namespace {

constexpr int watched[] = {SIGINT, SIGTERM, SIGUSR1};
volatile std::sig_atomic_t received = 0;
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

bool InterruptWatch::requested() const {
  return received != 0;
}

int InterruptWatch::exit_status() const {
  if (received == SIGINT) return tools::exit_interrupted;
  return received == SIGTERM ? tools::exit_terminated : tools::exit_done;
}

const char* InterruptWatch::name() const {
  if (received == SIGINT) return "Ctrl-C";
  return received == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

}  // namespace tessera::gptlite
