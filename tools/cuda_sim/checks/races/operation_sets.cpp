#include "tools/cuda_sim/checks/races/operation_sets.h"

#include <mutex>
#include <utility>

namespace tessera::cuda_sim {

std::vector<OperationMark> OperationSets::elements(OperationMark mark) const {
  if (mark.is_none()) return {};
  if (!mark.is_several()) return {mark};
  const std::shared_lock lock(mutex_);
  return sets_[mark.operation()];
}

OperationMark OperationSets::mark_of(std::vector<OperationMark> elements) {
  if (elements.empty()) return {};
  if (elements.size() == 1) return elements.front();
  std::vector<uint32_t> key;
  key.reserve(elements.size());
  for (const OperationMark mark : elements) key.push_back(mark.bits);
  const std::unique_lock lock(mutex_);
  if (sets_.size() == capacity) return elements.back();
  const auto [it, is_new] = numbers_.try_emplace(std::move(key), static_cast<uint32_t>(sets_.size()));
  if (is_new) {
    newest_[it->second].store(elements.back().operation(), std::memory_order_release);
    sets_.push_back(std::move(elements));
  }
  return {OperationMark::several_bit | it->second};
}

}  // namespace tessera::cuda_sim
