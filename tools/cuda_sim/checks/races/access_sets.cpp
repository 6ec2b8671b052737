#include "tools/cuda_sim/checks/races/access_sets.h"

namespace tessera::cuda_sim {

AccessSets::~AccessSets() {
  for (std::atomic<SetNode*>& chunk : chunks_) delete[] chunk.load();
}

SetNode* AccessSets::chunk_of(uint32_t set) {
  std::atomic<SetNode*>& chunk = chunks_[set / chunk_size];
  if (chunk.load(std::memory_order_relaxed) == nullptr)
    chunk.store(new SetNode[chunk_size], std::memory_order_release);
  return chunk.load(std::memory_order_relaxed);
}

uint32_t AccessSets::with(uint32_t parent, const SetEntry& entry, uint8_t saturated) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = numbers_.try_emplace(Key{parent, entry}, next_);
  if (!is_new) return it->second;
  if (next_ == capacity) {  // full: this one access goes unchecked
    numbers_.erase(it);
    return parent;
  }
  const auto bit = static_cast<uint8_t>(1u << static_cast<unsigned>(entry.kind));
  chunk_of(next_)[next_ % chunk_size] = {.entry = entry,
                                         .parent = parent,
                                         .kinds = static_cast<uint8_t>(node(parent).kinds | bit),
                                         .saturated = saturated};
  return next_++;
}

void AccessSets::clear() {
  numbers_.clear();
  next_ = 1;
}

}  // namespace tessera::cuda_sim
