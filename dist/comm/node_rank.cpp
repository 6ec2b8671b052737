#include "dist/comm/node_rank.h"

#include <exception>

#include "dist/comm/stall_watch.h"
#include "tensor/cores.h"

namespace tessera::dist::node {
namespace {

/// Who spins on a processor that a rank wants holds up the very rank it waits for.
std::chrono::microseconds spin_for(int ranks) {
  return ranks <= available_cores() ? std::chrono::microseconds(100) : std::chrono::microseconds(2);
}

RankProgress::Options progress_options(NodeShared& shared, RankBlock& own) {
  return {.spin = spin_for(shared.ranks()),
          .throw_if_failed = [&shared] { shared.throw_if_failed(); },
          .publish_waiting = [&own](int rank) { own.waits_for.store(rank, std::memory_order_relaxed); }};
}

}  // namespace

NodeRank::NodeRank(std::shared_ptr<NodeShared> shared, int index, const NodeRankOptions& options)
    : shared_(std::move(shared)),
      index_(index),
      progress_(shared_->block(index).bell, shared_->block(index).operations,
                progress_options(*shared_, shared_->block(index))) {
  const auto report = [all = shared_.get()](int rank) -> RankReport {
    const RankBlock* block = all->block_of_world_rank(rank);
    if (!block) return {};
    return {.operations = block->operations.load(std::memory_order_relaxed),
            .waits_for = block->waits_for.load(std::memory_order_relaxed)};
  };
  progress_.set_watch(std::make_shared<StallWatch>(options.timeout, report));
}

NodeRank::~NodeRank() {
  if (std::uncaught_exceptions() > 0)
    shared_->fail(FailureRecord::failed, world_rank(), "its communication was ended by an exception");
  if (!shared_->has_failed() && !progress_.settle())
    shared_->fail(FailureRecord::failed, world_rank(),
                  "it ended its communication while calls were in flight that the others did not complete");
  std::vector<std::shared_ptr<void>> left_behind;
  for (auto& call : progress_.take_calls()) left_behind.push_back(std::move(call));
  shared_->keep(std::move(left_behind));
  shared_->block(index_).has_left.store(1);
  for (int r = 0; r < shared_->ranks(); ++r) shared_->block(r).bell.ring();
}

}  // namespace tessera::dist::node
