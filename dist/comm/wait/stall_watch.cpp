#include "dist/comm/wait/stall_watch.h"

#include <set>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {

std::vector<StallDetector::RankCount> StallDetector::chain_from(int rank) const {
  std::vector<RankCount> chain;
  for (std::set<int> seen{own_}; rank >= 0 && seen.insert(rank).second;) {
    const RankReport report = report_(rank);
    chain.emplace_back(rank, report.operations);
    rank = report.waits_for;
  }
  return chain;
}

std::optional<int> StallDetector::find_stuck(int rank) {
  const auto now = Clock::now();
  std::vector<RankCount> chain = chain_from(rank);
  if (chain.empty() || chain != watched_) {
    watched_ = std::move(chain);
    since_ = now;
    return {};
  }
  if (now - since_ < timeout_) return {};
  return chain.back().first;
}

void StallWatch::check(int rank, const CallHeader& call) {
  const std::optional<int> stuck = detector_.find_stuck(rank);
  if (!stuck) return;
  const std::string seconds = seconds_text(detector_.timeout());
  if (*stuck == rank)
    throw RankLostError(text("rank ", rank, " is stuck: for ", seconds,
                             " it did nothing while others waited for it in ", call),
                        rank);
  throw RankLostError(text("rank ", *stuck, " is stuck: rank ", rank,
                           " waits for it, and was itself waited for in ", call, " for ", seconds),
                      *stuck);
}

}  // namespace tessera::dist
