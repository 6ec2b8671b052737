// The card's memory: allocations in one reserved range of addresses that are never used twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

struct Allocation {
  uint64_t address = 0, bytes = 0;
  uint64_t number = 0;     ///< in the order of allocation
  Operation freed_by = 0;  ///< 0: live
  bool is_live = true;
  std::string name;  ///< "cudaMalloc", "cudaMallocAsync", a __device__ variable's name
};

/// Global memory of one device. Device addresses are host addresses, inside one range that nothing else uses,
/// so an address outside is a host pointer. Fresh and freed bytes are all ones: NaN in every float format. A
/// freed address is not given out again before the range is exhausted, so that what is stale is seen.
/// Thread-safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// A multiple of 512, as cudaMalloc gives; 0 where fewer than `bytes` are free.
  uint64_t allocate(uint64_t bytes, std::string name);
  /// False where no live allocation begins at `address`.
  bool release(uint64_t address, Operation freed_by);
  /// The live or freed allocation that contains `address`, with the nearest one before it where none does.
  std::optional<Allocation> find(uint64_t address) const;
  bool contains(uint64_t address) const { return address - begin_ < reserved_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;
  std::map<uint64_t, Allocation> live() const;

 private:
  uint64_t begin_ = 0, reserved_ = 0, capacity_ = 0, used_ = 0, next_ = 0, count_ = 0;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;
};

}  // namespace tessera::cuda_sim
