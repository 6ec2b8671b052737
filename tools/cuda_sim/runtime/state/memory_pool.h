// A pool of cudaMallocAsync: how many bytes each pool holds of a device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::cuda_sim {

/// The accounts of a pool. Blocks come from the device's memory and go back to it at once, since an address
/// is never given out twice; `reserved` is what a card would keep: up to the release threshold until the next
/// synchronisation or trim.
struct MemoryPool {
  int device = 0;
  bool is_default = false;
  uint64_t max_bytes = 0;  ///< 0: the device's memory
  uint64_t release_threshold = 0;
  int reuse_follow_events = 1, reuse_opportunistic = 1, reuse_internal = 1;
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  bool is_destroyed = false;  ///< it goes when its last block does

  void take(uint64_t bytes) {
    used += bytes;
    used_high = std::max(used_high, used);
    reserved = std::max(reserved, used);
    reserved_high = std::max(reserved_high, reserved);
  }
  void give(uint64_t bytes) { used -= bytes; }
  /// Gives back what is not used, down to `keep`.
  void trim(uint64_t keep) { reserved = std::max(used, std::min(reserved, keep)); }
};

}  // namespace tessera::cuda_sim
