#pragma once  // internal

#include <chrono>
#include <cstdint>
#include <string>

#include "dist/comm/interface/call.h"
#include "dist/comm/wait/rank_activity.h"
#include "tensor/error.h"

namespace tessera::dist {

/// "0.5 s": a deadline in a message.
inline std::string seconds_text(std::chrono::milliseconds time) {
  return text(static_cast<double>(time.count()) / 1000, " s");
}

/// The progress of a rank, as the others see it.
struct RankReport {
  uint64_t operations = 0;  ///< calls begun and waited for
  int waits_for = -1;       ///< the rank, in the world, that it waits for; -1: it does not wait
  ActivityText activity{};  ///< PublishesActivity
  bool operator==(const RankReport&) const = default;
};

/// Detects lost ranks during a wait.
class PeerWatch {
 public:
  virtual ~PeerWatch() = default;
  /// Called by the waiting rank every 50 to 100 ms of a wait. `rank` (in the world) is the rank that `call`
  /// waits for. Throws RankLostError, naming the rank and the call, once that rank has ended, sends no
  /// heartbeat, or is stuck.
  virtual void check(int rank, const CallHeader& call) = 0;
  /// Called when a wait is over.
  virtual void end_wait() {}
};

}  // namespace tessera::dist
