#include "dist/comm/node/shared.h"

#include <algorithm>

namespace tessera::dist::node {

RankBlock* SharedMemory::block_of_world_rank(int rank) const {
  const auto found = std::find(world_ranks_.begin(), world_ranks_.end(), rank);
  return found == world_ranks_.end() ? nullptr : blocks_[static_cast<size_t>(found - world_ranks_.begin())];
}

void SharedMemory::fail(const RunFailure& failure) {
  uint32_t expected = FailureRecord::none;
  if (!failure_->state.compare_exchange_strong(expected, FailureRecord::being_written)) return;
  failure_->failure = encode(failure);
  failure_->state.store(FailureRecord::written);
  for (RankBlock* block : blocks_) block->event.signal();
}

void SharedMemory::throw_recorded() const {
  throw_failure(decode(failure_->failure));
}

void SharedMemory::keep(std::vector<std::shared_ptr<void>> objects) {
  const std::lock_guard lock(mutex_);
  for (auto& object : objects) kept_.push_back(std::move(object));
}

}  // namespace tessera::dist::node
