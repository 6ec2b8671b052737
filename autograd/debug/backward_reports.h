#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

/// Called when a backward of this thread starts, with the leaves that it will reach.
using BackwardStartHook = std::function<void(std::span<const Variable> leaves)>;

/// While it lives, `hook` is called for every backward that this thread starts. Sharding and pipelines use
/// this, `Variable::register_post_accumulate_grad_hook` and `at_backward_end`.
class BackwardObserver {
 public:
  /// Other observers of this thread stay; for each backward the one made last is called first.
  explicit BackwardObserver(BackwardStartHook hook);
  ~BackwardObserver();
  BackwardObserver(const BackwardObserver&) = delete;
  BackwardObserver& operator=(const BackwardObserver&) = delete;

 private:
  friend void notify_backward_start(std::span<const Variable> leaves);
  BackwardStartHook hook_;
  BackwardObserver* outer_;
};

/// Calls `callback` once, when the outermost backward of this thread has ended; drops it without a call when
/// an exception ends that backward. Throws AutogradError outside a backward.
void at_backward_end(std::function<void()> callback);

/// Whether a backward of this thread is running: a forward is then a recomputation.
bool backward_is_running();
/// Whether a backward of this thread is running inside another.
bool backward_is_nested();

/// The id of the innermost running backward of this thread, unique in the process; 0 outside.
uint64_t current_backward();

/// Whether this thread has a BackwardObserver.
bool backward_is_observed();
/// Called by the engine: calls the hooks of this thread's observers, that of the one made last first.
void notify_backward_start(std::span<const Variable> leaves);

/// Held by the engine while it runs: counts the nested backwards, and runs the queued callbacks at the end of
/// the outermost.
class BackwardInProgress {
 public:
  BackwardInProgress();
  ~BackwardInProgress();
  BackwardInProgress(const BackwardInProgress&) = delete;
  BackwardInProgress& operator=(const BackwardInProgress&) = delete;
  /// To call when the backward succeeded: the outermost runs the callbacks, including those that they queue.
  void finish();

 private:
  uint64_t outer_;
};

}  // namespace tessera
