// Epochs: the stretches of a warp's execution that the race check distinguishes.
#pragma once

#include <cstdint>
#include <mutex>

#include "tools/cuda_sim/checks/races/growing_table.h"
#include "tools/cuda_sim/checks/races/stamp.h"

namespace tessera::cuda_sim {

/// From one synchronisation of a warp to the next. `tick` is the warp's own entry of its vector clock; `part`
/// counts releases within a tick.
struct Epoch {
  uint32_t block, warp, tick, part;
};

/// Epochs by number, from 1. `add` and `at` may be called by several threads, `clear` by one alone.
class EpochTable {
 public:
  EpochTable() { epochs_.make(0) = {}; }
  /// A new number; `Stamp::unknown_epoch` where all are used up.
  uint32_t add(const Epoch& epoch);
  const Epoch& at(uint32_t number) const { return epochs_[number]; }
  void clear() { next_ = 1; }

 private:
  GrowingTable<Epoch> epochs_;
  uint32_t next_ = 1;
  std::mutex mutex_;
};

}  // namespace tessera::cuda_sim
