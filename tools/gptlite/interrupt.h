#pragma once

namespace tessera::gptlite {

/// While it lives, Ctrl-C, SIGTERM and SIGUSR1 are noted instead of ending the process, so that the step is
/// finished and saved. A second Ctrl-C ends it at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
};

/// The signal that came last while an InterruptWatch lived; 0 for none.
int received_signal();
/// The exit status that a signal calls for: 130 for Ctrl-C, 143 for SIGTERM, 0 for SIGUSR1.
int exit_status_of(int signal);
/// "Ctrl-C", "SIGTERM", "SIGUSR1".
const char* name_of_signal(int signal);

/// While it lives, those signals go to other threads than this one: to the first, which has a stack for them.
class SignalShield {
 public:
  SignalShield();
  ~SignalShield();
  SignalShield(const SignalShield&) = delete;
  SignalShield& operator=(const SignalShield&) = delete;

 private:
  bool blocked_[3] = {};
};

}  // namespace tessera::gptlite
