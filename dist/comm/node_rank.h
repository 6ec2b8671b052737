#pragma once

#include <chrono>
#include <memory>

#include "dist/comm/node_shared.h"
#include "dist/comm/rank_progress.h"

namespace tessera::dist::node {

struct NodeRankOptions {
  /// How long a rank may do nothing while others wait for it.
  std::chrono::milliseconds timeout{300'000};
};

/// One rank among those of its machine. Belongs to all communicators of the rank, and goes with the last of
/// them: then it first serves what others need of it.
class NodeRank {
 public:
  NodeRank(std::shared_ptr<NodeShared> shared, int index, const NodeRankOptions& options);
  ~NodeRank();
  NodeRank(const NodeRank&) = delete;
  NodeRank& operator=(const NodeRank&) = delete;

  NodeShared& shared() const { return *shared_; }
  /// Its number on this machine, and in the world.
  int index() const { return index_; }
  int world_rank() const { return shared_->world_rank(index_); }
  RankProgress& progress() { return progress_; }

 private:
  std::shared_ptr<NodeShared> shared_;
  int index_;
  RankProgress progress_;
};

}  // namespace tessera::dist::node
