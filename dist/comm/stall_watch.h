#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "dist/comm/peer_watch.h"

namespace tessera::dist {

/// What a rank shows of how it gets on.
struct RankReport {
  uint64_t operations = 0;  ///< begun and waited for; moves as long as the rank does
  int waits_for = -1;       ///< the rank, in the world, that it waits for; -1: it does not wait
};

/// Calls a rank lost whose count of operations stands still for `timeout` while this one waits for it. Where
/// that rank itself waits for another one, which waits for a third, the last of them is the one that is
/// stuck.
class StallWatch : public PeerWatch {
 public:
  StallWatch(std::chrono::milliseconds timeout, std::function<RankReport(int rank)> report)
      : timeout_(timeout), report_(std::move(report)) {}
  void check(int rank, const CallHeader& call) override;
  void relax() override { watched_ = -1; }

 private:
  using Clock = std::chrono::steady_clock;
  int last_of_chain(int rank) const;

  std::chrono::milliseconds timeout_;
  std::function<RankReport(int rank)> report_;
  int watched_ = -1;
  uint64_t operations_ = 0;
  Clock::time_point since_;
};

}  // namespace tessera::dist
