#include "dist/comm/node/rank.h"

#include <exception>
#include <numeric>

#include "dist/comm/wait/stall_watch.h"
#include "tensor/threads/cores.h"

namespace tessera::dist::node {

std::chrono::microseconds spin_among(int ranks) {
  return std::chrono::microseconds(ranks <= available_cores() ? 100 : 2);
}

std::unique_ptr<RankProgress> make_progress(RankBlock& block, std::chrono::microseconds spin) {
  const auto publish = [&block](int rank) { block.waits_for.store(rank, std::memory_order_relaxed); };
  return std::make_unique<RankProgress>(block.event, block.operations,
                                        RankProgress::Options{.spin = spin, .publish_waiting = publish});
}

std::vector<int> rank_indices(int ranks) {
  std::vector<int> indices(static_cast<size_t>(ranks));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

Rank::Rank(std::shared_ptr<SharedMemory> shared, int index, const RankOptions& options)
    : shared_(std::move(shared)),
      index_(index),
      own_progress_(make_progress(shared_->block(index), spin_among(shared_->ranks()))),
      progress_(*own_progress_) {
  const auto report = [all = shared_.get()](int rank) {
    const RankBlock* block = all->block_of_world_rank(rank);
    return block ? block->report() : RankReport();
  };
  std::vector<int> ranks;
  for (int r = 0; r < shared_->ranks(); ++r) ranks.push_back(shared_->world_rank(r));
  progress_.set_watch(std::make_shared<StallWatch>(world_rank(), std::move(ranks), options.timeout, report));
  progress_.add_failure_check([all = shared_.get()] { all->throw_if_failed(); });
}

Rank::Rank(std::shared_ptr<SharedMemory> shared, int index, RankProgress& progress)
    : shared_(std::move(shared)), index_(index), progress_(progress) {
  progress_.add_failure_check([all = shared_] { all->throw_if_failed(); });
}

Rank::~Rank() {
  if (own_progress_) end_communication();
  shared_->block(index_).has_exited.store(1);
  for (int r = 0; r < shared_->ranks(); ++r) shared_->block(r).event.signal();
}

void Rank::end_communication() {
  if (std::uncaught_exceptions() > 0)
    shared_->fail({.rank = world_rank(), .message = "its communication was ended by an exception"});
  if (!shared_->has_failed() && !progress_.complete_calls())
    shared_->fail(
        {.rank = world_rank(),
         .message =
             "it ended its communication while calls were in flight that the others did not complete"});
  shared_->keep(progress_.take_calls());
}

}  // namespace tessera::dist::node
