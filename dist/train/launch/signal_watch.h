#pragma once  // not in tessera.h

#include <memory>
#include <vector>

namespace tessera::training {

/// While it exists, some signals are recorded instead of taking their effect, so that a run can end after its
/// step. A second Ctrl-C ends the process at once. Several may exist at a time, as ranks that are threads
/// have them: the last one gives the signals their effect back. The handler runs on a stack of its own in the
/// thread that made the watch.
class SignalWatch {
 public:
  /// Throws ConfigError, naming the number, for one that is no signal or cannot be handled.
  explicit SignalWatch(const std::vector<int>& signals);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The newest signal since this thread made the oldest of its watches that still exist; 0: none.
  static int received();

 private:
  struct Stack;
  std::vector<int> signals_;
  std::unique_ptr<Stack> stack_;
};

}  // namespace tessera::training
