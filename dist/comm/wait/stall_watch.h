#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "dist/comm/wait/peer_watch.h"

namespace tessera::dist {

/// What a rank shows of how it gets on.
struct RankReport {
  uint64_t operations = 0;  ///< begun and waited for; moves as long as the rank does
  int waits_for = -1;       ///< the rank, in the world, that it waits for; -1: it does not wait
};

/// Calls a rank lost whose count of operations stands still for `timeout` while this one waits for it. Where
/// that rank itself waits for another one, which waits for a third, the last of them is the one that is
/// stuck, once all of them stand still: while one of them moves, it may yet come to what the others wait for.
class StallWatch : public PeerWatch {
 public:
  StallWatch(std::chrono::milliseconds timeout, std::function<RankReport(int rank)> report)
      : timeout_(timeout), report_(std::move(report)) {}
  void check(int rank, const CallHeader& call) override;
  void relax() override { watched_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A rank and its count of operations.
  using Standing = std::pair<int, uint64_t>;
  std::vector<Standing> chain_from(int rank) const;

  std::chrono::milliseconds timeout_;
  std::function<RankReport(int rank)> report_;
  std::vector<Standing> watched_;  ///< who waits for whom, since `since_`
  Clock::time_point since_;
};

}  // namespace tessera::dist
