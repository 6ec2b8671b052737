#pragma once  // internal

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "dist/comm/wait/peer_watch.h"

namespace tessera::dist {

/// Finds the rank that is stuck during a wait. It is the last one of the chain of waiting ranks: the rank
/// that this one waits for, the rank that that one waits for, and so on, up to a rank that waits for none, is
/// in the chain already, or is this rank. It is stuck once its report has not changed for `timeout`. From the
/// start of a wait the reports of all ranks are followed, not those of the chain alone: ranks that reach the
/// call one after another change the chain, but not the time of the last one.
class StallDetector {
 public:
  using Clock = std::chrono::steady_clock;
  /// `own` is this rank; `report` gives the state of any other one of `ranks`, as reported over the
  /// transport.
  StallDetector(int own, std::vector<int> ranks, std::chrono::milliseconds timeout,
                std::function<RankReport(int rank)> report)
      : own_(own), ranks_(std::move(ranks)), timeout_(timeout), report_(std::move(report)) {}
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// The newest report of another rank.
  RankReport report(int rank) const { return report_(rank); }
  /// The stuck rank, if there is one, while this rank waits for `rank`. Called again and again in a wait.
  std::optional<int> find_stuck(int rank, Clock::time_point now = Clock::now());
  /// Called when a wait is over.
  void end_wait() { seen_.clear(); }

 private:
  /// A report, unchanged since then.
  struct Seen {
    RankReport report;
    Clock::time_point since;
  };
  const Seen& look_at(int rank, Clock::time_point now);

  int own_;
  std::vector<int> ranks_;
  std::chrono::milliseconds timeout_;
  std::function<RankReport(int rank)> report_;
  std::map<int, Seen> seen_;  ///< in this wait, by rank
};

/// Reports a stuck rank as lost, and nothing else: for ranks that read each other's state.
class StallWatch : public PeerWatch {
 public:
  StallWatch(int own, std::vector<int> ranks, std::chrono::milliseconds timeout,
             std::function<RankReport(int rank)> report)
      : detector_(own, std::move(ranks), timeout, std::move(report)) {}
  void check(int rank, const CallHeader& call) override;
  void end_wait() override { detector_.end_wait(); }

 private:
  StallDetector detector_;
};

}  // namespace tessera::dist
