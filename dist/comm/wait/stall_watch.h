#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "dist/comm/wait/peer_watch.h"

namespace tessera::dist {

/// Finds the rank that is stuck during a wait. It is the last one of the chain of waiting ranks: the rank
/// that this one waits for, the rank that that one waits for, and so on, up to a rank that waits for none, is
/// in the chain already, or is this rank. A rank is stuck once the chain and its counts of operations have
/// not changed for `timeout`: while one count changes, its rank may still reach the call that the others wait
/// in.
class StallDetector {
 public:
  /// `own` is this rank; `report` gives the state of any other, as the transport knows it.
  StallDetector(int own, std::chrono::milliseconds timeout, std::function<RankReport(int rank)> report)
      : own_(own), timeout_(timeout), report_(std::move(report)) {}
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// The stuck rank, if there is one, while this rank waits for `rank`. Called again and again in a wait.
  std::optional<int> find_stuck(int rank);
  /// Called when a wait is over.
  void end_wait() { watched_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A rank and its count of operations.
  using RankCount = std::pair<int, uint64_t>;
  std::vector<RankCount> chain_from(int rank) const;

  int own_;
  std::chrono::milliseconds timeout_;
  std::function<RankReport(int rank)> report_;
  std::vector<RankCount> watched_;  ///< the chain, unchanged since `since_`
  Clock::time_point since_;
};

/// Reports a stuck rank as lost, and nothing else: for ranks that read each other's state.
class StallWatch : public PeerWatch {
 public:
  StallWatch(int own, std::chrono::milliseconds timeout, std::function<RankReport(int rank)> report)
      : detector_(own, timeout, std::move(report)) {}
  void check(int rank, const CallHeader& call) override;
  void end_wait() override { detector_.end_wait(); }

 private:
  StallDetector detector_;
};

}  // namespace tessera::dist
