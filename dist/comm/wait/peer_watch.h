#pragma once

#include "dist/comm/interface/call.h"

namespace tessera::dist {

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
