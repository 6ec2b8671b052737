#include "dist/comm/wait/stall_watch.h"

#include <algorithm>
#include <set>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {

const StallDetector::Seen& StallDetector::look_at(int rank, Clock::time_point now) {
  const RankReport report = report_(rank);
  const auto [place, is_new] = seen_.try_emplace(rank, Seen{.report = report, .since = now});
  if (!is_new && place->second.report != report) place->second = {.report = report, .since = now};
  return place->second;
}

std::optional<int> StallDetector::find_stuck(int rank, Clock::time_point now) {
  for (const int other : ranks_)
    if (other != own_) look_at(other, now);
  int last = -1;
  bool waits = false;
  Clock::time_point since, changed = Clock::time_point::min();
  for (std::set<int> chain{own_}; rank >= 0 && chain.insert(rank).second;) {
    const Seen& seen = look_at(rank, now);
    last = rank;
    since = seen.since;
    changed = std::max(changed, seen.since);
    rank = seen.report.waits_for;
    waits = rank >= 0;
  }
  // Ranks that wait for each other in a circle are stuck together: while one changes, none is.
  if (last < 0 || now - (waits ? changed : since) < timeout_) return {};
  return last;
}

void StallWatch::check(int rank, const CallHeader& call) {
  const std::optional<int> stuck = detector_.find_stuck(rank);
  if (!stuck) return;
  const std::string seconds = seconds_text(detector_.timeout());
  const std::string doing = described(detector_.report(*stuck).activity);
  if (*stuck == rank)
    throw RankLostError(text("rank ", rank, " is stuck: for ", seconds,
                             " it did nothing while others waited for it in ", call, doing),
                        rank);
  throw RankLostError(text("rank ", *stuck, " is stuck: for ", seconds, " it did nothing, and rank ", rank,
                           ", which is waited for in ", call, ", waits for it", doing),
                      *stuck);
}

}  // namespace tessera::dist
