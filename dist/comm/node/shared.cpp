#include "dist/comm/node/shared.h"

#include <algorithm>
#include <cstring>

namespace tessera::dist::node {

RankBlock* NodeShared::block_of_world_rank(int rank) const {
  const auto found = std::find(world_ranks_.begin(), world_ranks_.end(), rank);
  return found == world_ranks_.end() ? nullptr : blocks_[static_cast<size_t>(found - world_ranks_.begin())];
}

void NodeShared::fail(FailureRecord::Kind kind, int rank, const std::string& message) {
  uint32_t expected = FailureRecord::none;
  if (!failure_->kind.compare_exchange_strong(expected, FailureRecord::being_written)) return;
  failure_->rank = rank;
  const size_t length = std::min(message.size(), sizeof failure_->message - 1);
  std::memcpy(failure_->message, message.data(), length);
  failure_->message[length] = '\0';
  failure_->kind.store(kind);
  for (RankBlock* block : blocks_) block->event.signal();
}

void NodeShared::throw_failure() const {
  const std::string message = failure_->message;
  switch (failure_->kind.load()) {
    case FailureRecord::mismatch:
      throw MismatchError(message);
    case FailureRecord::lost:
      throw RankLostError(message, failure_->rank);
    default:
      throw PeerFailedError(text("rank ", failure_->rank, " failed: ", message), failure_->rank);
  }
}

void NodeShared::keep(std::vector<std::shared_ptr<void>> objects) {
  const std::lock_guard lock(mutex_);
  for (auto& object : objects) kept_.push_back(std::move(object));
}

}  // namespace tessera::dist::node
