#include "tools/cuda_sim/checks/races/epoch_table.h"

namespace tessera::cuda_sim {

uint32_t EpochTable::add(const Epoch& epoch) {
  const std::lock_guard lock(mutex_);
  if (next_ == Stamp::unknown_epoch) {
    epochs_.make(next_) = {};
    return Stamp::unknown_epoch;
  }
  epochs_.make(next_) = epoch;
  return next_++;
}

}  // namespace tessera::cuda_sim
