#include "dist/comm/node/rank.h"

#include <exception>
#include <numeric>

#include "dist/comm/wait/stall_watch.h"
#include "tensor/threads/cores.h"

namespace tessera::dist::node {
namespace {

std::unique_ptr<RankProgress> make_progress(const NodeShared& shared, RankBlock& own) {
  const auto publish = [&own](int rank) { own.waits_for.store(rank, std::memory_order_relaxed); };
  return std::make_unique<RankProgress>(
      own.event, own.operations,
      RankProgress::Options{.spin = spin_among(shared.ranks()), .publish_waiting = publish});
}

}  // namespace

std::chrono::microseconds spin_among(int ranks) {
  return std::chrono::microseconds(ranks <= available_cores() ? 100 : 2);
}

std::vector<int> rank_indices(int ranks) {
  std::vector<int> indices(static_cast<size_t>(ranks));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

NodeRank::NodeRank(std::shared_ptr<NodeShared> shared, int index, const NodeRankOptions& options)
    : shared_(std::move(shared)),
      index_(index),
      own_progress_(make_progress(*shared_, shared_->block(index))),
      progress_(*own_progress_) {
  const auto report = [all = shared_.get()](int rank) -> RankReport {
    const RankBlock* block = all->block_of_world_rank(rank);
    if (!block) return {};
    return {.operations = block->operations.load(std::memory_order_relaxed),
            .waits_for = block->waits_for.load(std::memory_order_relaxed)};
  };
  progress_.set_watch(std::make_shared<StallWatch>(options.timeout, report));
  progress_.add_failure_check([all = shared_.get()] { all->throw_if_failed(); });
}

NodeRank::NodeRank(std::shared_ptr<NodeShared> shared, int index, RankProgress& progress)
    : shared_(std::move(shared)), index_(index), progress_(progress) {
  progress_.add_failure_check([all = shared_] { all->throw_if_failed(); });
}

NodeRank::~NodeRank() {
  if (own_progress_) end_communication();
  shared_->block(index_).has_left.store(1);
  for (int r = 0; r < shared_->ranks(); ++r) shared_->block(r).event.signal();
}

void NodeRank::end_communication() {
  if (std::uncaught_exceptions() > 0)
    shared_->fail({.rank = world_rank(), .message = "its communication was ended by an exception"});
  if (!shared_->has_failed() && !progress_.complete_calls())
    shared_->fail(
        {.rank = world_rank(),
         .message =
             "it ended its communication while calls were in flight that the others did not complete"});
  std::vector<std::shared_ptr<void>> kept;
  for (auto& call : progress_.take_calls()) kept.push_back(std::move(call));
  shared_->keep(std::move(kept));
}

}  // namespace tessera::dist::node
