#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "dist/comm/wait/peer_watch.h"

namespace tessera::dist {

/// Reports a rank as lost when its count of operations does not change for `timeout` while this rank waits
/// for it. Where that rank itself waits for another one, which waits for a third, the last rank of this chain
/// is the one that is stuck, once no count of the chain changes: while one does, that rank may still reach
/// the call that the others wait in.
class StallWatch : public PeerWatch {
 public:
  StallWatch(std::chrono::milliseconds timeout, std::function<RankReport(int rank)> report)
      : timeout_(timeout), report_(std::move(report)) {}
  void check(int rank, const CallHeader& call) override;
  void end_wait() override { watched_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A rank and its count of operations.
  using RankCount = std::pair<int, uint64_t>;
  std::vector<RankCount> chain_from(int rank) const;

  std::chrono::milliseconds timeout_;
  std::function<RankReport(int rank)> report_;
  std::vector<RankCount> watched_;  ///< the chain of waiting ranks, unchanged since `since_`
  Clock::time_point since_;
};

}  // namespace tessera::dist
