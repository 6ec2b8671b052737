#include "tools/cuda_sim/checks/races/epoch_table.h"

namespace tessera::cuda_sim {

EpochTable::~EpochTable() {
  for (std::atomic<Epoch*>& chunk : chunks_) delete[] chunk.load();
}

uint32_t EpochTable::add(const Epoch& epoch) {
  uint32_t number = next_.load(std::memory_order_relaxed);
  do {
    if (number >= Stamp::unknown_epoch) return Stamp::unknown_epoch;
  } while (!next_.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  std::atomic<Epoch*>& chunk = chunks_[number / chunk_size];
  if (chunk.load(std::memory_order_acquire) == nullptr) {
    const std::lock_guard lock(mutex_);
    if (chunk.load(std::memory_order_relaxed) == nullptr)
      chunk.store(new Epoch[chunk_size], std::memory_order_release);
  }
  chunk.load(std::memory_order_relaxed)[number % chunk_size] = epoch;
  return number;
}

}  // namespace tessera::cuda_sim
