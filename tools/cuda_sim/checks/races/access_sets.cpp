#include "tools/cuda_sim/checks/races/access_sets.h"

namespace tessera::cuda_sim {

uint32_t AccessSets::with(uint32_t parent, const SetEntry& entry, uint8_t saturated) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = numbers_.try_emplace(Key{parent, entry}, next_);
  if (!is_new) return it->second;
  if (next_ == capacity) {  // full: this one access goes unchecked
    numbers_.erase(it);
    return parent;
  }
  const auto bit = static_cast<uint8_t>(1u << static_cast<unsigned>(entry.kind));
  nodes_.make(next_) = {.entry = entry,
                        .parent = parent,
                        .kinds = static_cast<uint8_t>(node(parent).kinds | bit),
                        .saturated = saturated};
  return next_++;
}

void AccessSets::clear() {
  if (next_ == 1) return;
  numbers_.clear();
  next_ = 1;
}

}  // namespace tessera::cuda_sim
