#include "dist/comm/stall_watch.h"

#include <set>

#include "dist/comm/errors.h"

namespace tessera::dist {

int StallWatch::last_of_chain(int rank) const {
  for (std::set<int> seen; seen.insert(rank).second;) {
    const int next = report_(rank).waits_for;
    if (next < 0) return rank;
    rank = next;
  }
  return rank;  // ranks that wait for each other in a ring
}

void StallWatch::check(int rank, const CallHeader& call) {
  const auto now = Clock::now();
  const uint64_t operations = report_(rank).operations;
  if (rank != watched_ || operations != operations_) {
    watched_ = rank;
    operations_ = operations;
    since_ = now;
    return;
  }
  if (now - since_ < timeout_) return;
  const double seconds = std::chrono::duration<double>(timeout_).count();
  const int stuck = last_of_chain(rank);
  if (stuck == rank)
    throw RankLostError(text("rank ", rank, " is stuck: for ", seconds,
                             " s it did nothing while others waited for it in ", call),
                        rank);
  throw RankLostError(text("rank ", stuck, " is stuck: rank ", rank,
                           " waits for it, and was itself waited for in ", call, " for ", seconds, " s"),
                      stuck);
}

}  // namespace tessera::dist
