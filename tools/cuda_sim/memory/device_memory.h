// The card's memory: allocations in one reserved range of addresses that are never used twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

struct Allocation {
  uint64_t address = 0, bytes = 0;
  uint64_t number = 0;     ///< in the order of allocation, from 1
  Operation freed_by = 0;  ///< of an allocation that is not live
  bool is_live = true;
  std::string name;  ///< "cudaMalloc", "cudaMallocAsync", a __device__ variable's name
};

/// Global memory of one device. Device addresses are host addresses, inside one range that nothing else uses,
/// so an address outside is a host pointer. Fresh bytes are all ones: NaN in every float format. A freed
/// address is not given out again before the range, `reserve_factor` times the capacity, is exhausted, so
/// that what is stale is seen; the pages behind it go back to the host. Thread-safe.
class DeviceMemory {
 public:
  static constexpr uint64_t alignment = 512;      ///< of every allocation, as cudaMalloc's
  static constexpr uint64_t reserve_factor = 16;  ///< addresses for each byte of capacity

  /// @throws std::bad_alloc where the host has no such range of addresses.
  explicit DeviceMemory(uint64_t capacity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// A multiple of `alignment`; 0 where fewer than `bytes` are free.
  uint64_t allocate(uint64_t bytes, std::string name);
  /// False where no live allocation begins at `address`.
  bool release(uint64_t address, Operation freed_by);
  /// Another name for the live allocation that contains `address`.
  void rename(uint64_t address, std::string name);
  /// The live or freed allocation that contains `address`, or the nearest one before it where none does.
  std::optional<Allocation> find(uint64_t address) const;

  /// The live allocation that contains `address`, as its bytes [begin, end); both 0 where there is none. It
  /// may be kept as long as `generation()` stays what it was before the call.
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  Range live_range(uint64_t address) const;
  /// Changes with every allocation and release; no two memories of a process ever have the same one.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  bool contains(uint64_t address) const { return address - begin_ < reserved_; }
  uint64_t begin() const { return begin_; }  ///< of the reserved range
  uint64_t reserved_bytes() const { return reserved_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const;  ///< by live allocations, each a multiple of `alignment`
  std::map<uint64_t, Allocation> live() const;

 private:
  uint64_t take_fresh(uint64_t bytes);
  uint64_t take_freed(uint64_t bytes);

  uint64_t begin_ = 0, reserved_ = 0, capacity_ = 0, used_ = 0, next_ = 0, count_ = 0;
  std::atomic<uint64_t> generation_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> allocations_;  ///< live and freed, by address
};

}  // namespace tessera::cuda_sim
