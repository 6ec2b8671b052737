#pragma once

#include <cstdint>
#include <functional>

#include "dist/comm/interface/call.h"

/// Delays and faults put into a rank's communication, to test races, deadlines and error messages.
namespace tessera::dist {

/// Where a rank is when its hook is called.
enum class CommPoint : uint8_t {
  start,     ///< before a call is entered
  wait,      ///< before a wait
  work,      ///< before this rank's work for a call: a copy or a sum
  finished,  ///< after that work
  search     ///< within the search for a message, after the first place that may have it
};

/// It may sleep, throw, or end the process.
using CommHook = std::function<void(CommPoint, const CallHeader&)>;

/// Calls `hook` at every point of this thread's communication while it lives.
class CommHookScope {
 public:
  /// Replaces this thread's earlier hook, which the destructor sets again.
  explicit CommHookScope(CommHook hook);
  ~CommHookScope();
  CommHookScope(const CommHookScope&) = delete;
  CommHookScope& operator=(const CommHookScope&) = delete;

 private:
  CommHook hook_;
  const CommHook* previous_;
};

namespace detail {
inline thread_local const CommHook* comm_hook = nullptr;
}

/// Called by communicators at each point.
inline void run_comm_hook(CommPoint point, const CallHeader& call) {
  if (detail::comm_hook) [[unlikely]]
    (*detail::comm_hook)(point, call);
}

}  // namespace tessera::dist
