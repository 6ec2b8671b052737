#include "tools/cuda_sim/runtime/state/host_memory.h"

#include <algorithm>
#include <iterator>

namespace tessera::cuda_sim {

void HostMemory::add(uint64_t begin, uint64_t bytes, unsigned flags, bool is_registered) {
  Block block;
  block.begin = begin;
  block.bytes = bytes;
  block.flags = flags;
  block.is_registered = is_registered;
  blocks_[begin] = std::move(block);
}

void HostMemory::remove(uint64_t begin) {
  blocks_.erase(begin);
}

HostMemory::Block* HostMemory::find(uint64_t address) {
  const auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  Block& block = std::prev(it)->second;
  return address - block.begin < block.bytes ? &block : nullptr;
}

bool HostMemory::overlaps(uint64_t begin, uint64_t bytes) const {
  return std::ranges::any_of(blocks_, [&](const auto& entry) {
    return entry.second.begin < begin + bytes && begin < entry.second.begin + entry.second.bytes;
  });
}

void HostMemory::will_use(Operation operation, uint64_t begin, uint64_t bytes, bool writes) {
  Block* block = find(begin);
  if (block == nullptr || scheduler_->is_done(operation)) return;
  std::erase_if(block->pending, [this](const Block::Use& use) { return scheduler_->is_done(use.operation); });
  block->pending.push_back({begin, begin + bytes, operation, writes});
}

bool HostMemory::is_in_flight(uint64_t begin, uint64_t bytes) const {
  for (const auto& [at, block] : blocks_)
    for (const Block::Use& use : block.pending)
      if (!scheduler_->is_done(use.operation) && use.begin < begin + bytes && begin < use.end) return true;
  return false;
}

Operation HostMemory::in_flight(const Block& block) const {
  for (const Block::Use& use : block.pending)
    if (!scheduler_->is_done(use.operation)) return use.operation;
  return 0;
}

void HostMemory::use(Operation operation, uint64_t begin, uint64_t bytes, bool writes) {
  if (writes) ++writes_;
  Block* block = find(begin);
  if (block == nullptr || bytes == 0) return;
  const uint64_t end = begin + bytes;
  for (const Block::Use& earlier : block->uses) {
    if (earlier.end <= begin || end <= earlier.begin || !(earlier.writes || writes)) continue;
    if (earlier.operation == operation || log_->is_ordered(earlier.operation, operation)) continue;
    findings_->add(Check::stream_race,
                   log_->describe(operation) + (writes ? " writes" : " reads") + " pinned memory at offset " +
                       std::to_string(std::max(begin, earlier.begin) - block->begin) + " of " +
                       std::to_string(block->bytes) + " bytes that " + log_->describe(earlier.operation) +
                       (earlier.writes ? " writes" : " reads") + ", and nothing orders the two",
                   Site{});
    break;
  }
  // What this operation covers and comes after needs no place of its own any more; nor does what the host has
  // waited for, once no operation is left that was issued before the wait.
  const bool is_last = scheduler_->unfinished() <= 1;
  std::erase_if(block->uses, [&](const Block::Use& earlier) {
    if (is_last && log_->host_has_waited_for(earlier.operation)) return true;
    return begin <= earlier.begin && earlier.end <= end && (writes || !earlier.writes) &&
           log_->is_ordered(earlier.operation, operation);
  });
  block->uses.push_back({begin, end, operation, writes});
}

}  // namespace tessera::cuda_sim
