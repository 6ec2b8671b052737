#pragma once

#include "dist/comm/interface/call.h"

namespace tessera::dist {

/// Looks after the ranks that others wait for.
class PeerWatch {
 public:
  virtual ~PeerWatch() = default;
  /// Called every 50 to 100 ms of a wait, by the waiting rank. `rank` (in the world) has not done its part of
  /// `call` yet. Throws RankLostError, naming the rank and the call, once it is gone, silent or stuck.
  virtual void check(int rank, const CallHeader& call) = 0;
  /// Called when a wait is over.
  virtual void relax() {}
};

}  // namespace tessera::dist
