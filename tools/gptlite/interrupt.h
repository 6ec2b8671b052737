#pragma once

#include "tools/cli/exit_status.h"

namespace tessera::gptlite {

/// While it lives, Ctrl-C, SIGTERM and SIGUSR1 are noted instead of ending the process, so that the step is
/// finished and saved. A second Ctrl-C ends it at once.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Whether one came.
  bool requested() const;
  /// The exit status that it calls for: 130 for Ctrl-C, 143 for SIGTERM, 0 for SIGUSR1.
  int exit_status() const;
  /// "Ctrl-C", "SIGTERM", "SIGUSR1".
  const char* name() const;
};

}  // namespace tessera::gptlite
