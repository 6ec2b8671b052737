#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

/// Called when a backward of this thread starts, with the leaves that it will reach.
using BackwardStartHook = std::function<void(std::span<const Variable> leaves)>;

/// While it lives, `hook` is told of every backward that this thread starts. Sharding and pipelines stand on
/// this, on `Variable::register_accumulated_hook`, and on `queue_backward_end`.
class BackwardObserver {
 public:
  explicit BackwardObserver(BackwardStartHook hook);
  ~BackwardObserver();
  BackwardObserver(const BackwardObserver&) = delete;
  BackwardObserver& operator=(const BackwardObserver&) = delete;

 private:
  friend void notify_backward_start(std::span<const Variable> leaves);
  BackwardStartHook hook_;
  BackwardObserver* outer_;
};

/// Runs `callback` once, when the outermost backward of this thread has ended (also when it ended by an
/// exception, then without being called). Throws AutogradError outside a backward.
void queue_backward_end(std::function<void()> callback);

/// Whether a backward of this thread is running: what runs forward then is a recomputation.
bool backward_is_running();
/// Whether one runs inside another.
bool backward_is_nested();

/// Which backward of this thread runs, the innermost one: no two of a process have the same; 0 outside.
uint64_t current_backward();

bool backward_is_observed();
void notify_backward_start(std::span<const Variable> leaves);

/// Held by the engine while it runs: knows which backward is the outermost, and runs the queued callbacks at
/// its end.
class BackwardInProgress {
 public:
  BackwardInProgress();
  ~BackwardInProgress();
  BackwardInProgress(const BackwardInProgress&) = delete;
  BackwardInProgress& operator=(const BackwardInProgress&) = delete;
  /// The backward ended well: the outermost runs the callbacks, including those that they queue.
  void finish();

 private:
  uint64_t outer_;
};

}  // namespace tessera
