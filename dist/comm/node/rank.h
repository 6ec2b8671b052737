#pragma once

#include <chrono>
#include <memory>

#include "dist/comm/node/shared.h"
#include "dist/comm/wait/rank_progress.h"

namespace tessera::dist::node {

struct NodeRankOptions {
  /// How long a rank may do nothing while others wait for it.
  std::chrono::milliseconds timeout{300'000};
};

/// How long a rank looks for what it waits for before it falls asleep, where `ranks` share this machine: who
/// spins on a processor that a rank wants holds up the very rank it waits for.
std::chrono::microseconds spin_among(int ranks);

/// One rank among those of its machine. Belongs to all communicators of the rank, and goes with the last of
/// them: then it first serves what others need of it.
class NodeRank {
 public:
  NodeRank(std::shared_ptr<NodeShared> shared, int index, const NodeRankOptions& options);
  /// The same for a rank that has other transports too: they share `progress`, which listens to the bell of
  /// this rank's block, is watched over, and is settled by whoever made it.
  NodeRank(std::shared_ptr<NodeShared> shared, int index, RankProgress& progress);
  ~NodeRank();
  NodeRank(const NodeRank&) = delete;
  NodeRank& operator=(const NodeRank&) = delete;

  NodeShared& shared() const { return *shared_; }
  /// Its number on this machine, and in the world.
  int index() const { return index_; }
  int world_rank() const { return shared_->world_rank(index_); }
  RankProgress& progress() { return progress_; }

 private:
  void settle();

  std::shared_ptr<NodeShared> shared_;
  int index_;
  std::unique_ptr<RankProgress> own_progress_;
  RankProgress& progress_;
};

}  // namespace tessera::dist::node
