// Epochs: the stretches of a warp's execution that the race check tells apart.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "tools/cuda_sim/checks/races/stamp.h"

namespace tessera::cuda_sim {

/// From one synchronisation of a warp to the next. `tick` is the warp's own entry of its vector clock; `part`
/// counts releases within a tick.
struct Epoch {
  uint32_t block = 0, warp = 0, tick = 0, part = 0;
};

/// Epochs by number, from 1. `add` and `at` may be called by several threads, `clear` by one alone.
class EpochTable {
 public:
  /// A new number; `Stamp::unknown_epoch` where all are used up.
  uint32_t add(const Epoch& epoch);
  const Epoch& at(uint32_t number) const {
    return chunks_[number / chunk_size].load(std::memory_order_acquire)[number % chunk_size];
  }
  void clear() { next_.store(1, std::memory_order_relaxed); }
  ~EpochTable();

 private:
  static constexpr uint32_t chunk_size = 1 << 12;
  std::array<std::atomic<Epoch*>, (1u << Stamp::epoch_bits) / chunk_size> chunks_{};
  std::atomic<uint32_t> next_{1};
  std::mutex mutex_;
};

}  // namespace tessera::cuda_sim
