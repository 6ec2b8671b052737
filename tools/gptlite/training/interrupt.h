#pragma once

namespace tessera::gptlite {

/// While it exists, Ctrl-C, SIGTERM and SIGUSR1 are recorded instead of ending the process, so that the step
/// is finished and saved. A second Ctrl-C ends the process at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
};

/// The last signal that an InterruptWatch recorded; 0 for none.
int received_signal();
/// The exit status after a signal: 130 for Ctrl-C, 143 for SIGTERM, 0 for SIGUSR1.
int exit_status_of(int signal);
/// "Ctrl-C", "SIGTERM", "SIGUSR1".
const char* name_of_signal(int signal);

/// While it exists, these signals are blocked in this thread: the first thread, which has a stack for their
/// handler, receives them.
class SignalBlockScope {
 public:
  SignalBlockScope();
  ~SignalBlockScope();
  SignalBlockScope(const SignalBlockScope&) = delete;
  SignalBlockScope& operator=(const SignalBlockScope&) = delete;

 private:
  bool was_blocked_[3] = {};
};

}  // namespace tessera::gptlite
