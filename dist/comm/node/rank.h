#pragma once  // internal

#include <chrono>
#include <memory>
#include <vector>

#include "dist/comm/node/shared.h"
#include "dist/comm/wait/rank_progress.h"

namespace tessera::dist::node {

struct RankOptions {
  /// How long a rank may do nothing while others wait for it.
  std::chrono::milliseconds timeout{300'000};
};

/// How long a waiting rank spins before it sleeps, where `ranks` share this machine. With more ranks than
/// cores it is short: a rank that spins on a processor delays the rank that it waits for.
std::chrono::microseconds spin_among(int ranks);

/// How the rank of this block waits: it publishes in the block what the others need to see of that. The block
/// must live longer.
std::unique_ptr<RankProgress> make_progress(RankBlock& block, std::chrono::microseconds spin);

/// 0, 1, ..., ranks - 1.
std::vector<int> rank_indices(int ranks);

/// One rank among those of its machine. Shared by all communicators of the rank, and destroyed with the last
/// of them; the destructor first does what the other ranks need of this one.
class Rank {
 public:
  Rank(std::shared_ptr<SharedMemory> shared, int index, const RankOptions& options);
  /// The same for a rank that has other transports too. They share `progress`, which waits for the event of
  /// this rank's block. Its owner sets its watch and completes its calls.
  Rank(std::shared_ptr<SharedMemory> shared, int index, RankProgress& progress);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  SharedMemory& shared() const { return *shared_; }
  /// Its index on this machine, and its rank in the world.
  int index() const { return index_; }
  int world_rank() const { return shared_->world_rank(index_); }
  RankProgress& progress() { return progress_; }
  /// PublishesActivity
  void publish_activity(std::string_view what) { shared_->block(index_).activity.set(activity_text(what)); }

 private:
  void end_communication();

  std::shared_ptr<SharedMemory> shared_;
  int index_;
  std::unique_ptr<RankProgress> own_progress_;
  RankProgress& progress_;
};

}  // namespace tessera::dist::node
