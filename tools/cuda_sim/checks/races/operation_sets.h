// Sets of operations, for a cell that several unordered operations accessed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>
#include <vector>

#include "tools/cuda_sim/checks/operation_order.h"

namespace tessera::cuda_sim {

/// What a cell says about operations, in 32 bits: none (0), one, or several that nothing orders. Each is
/// marked where all its accesses to the cell were strong.
struct OperationMark {
  uint32_t bits;

  static constexpr uint32_t several_bit = 1u << 31, strong_bit = 1u << 30;
  static constexpr OperationMark of(Operation operation, bool is_strong) {
    return {operation | (is_strong || operation == 0 ? strong_bit : 0)};  // 0: before all, yet not none
  }
  bool operator==(const OperationMark&) const = default;
  bool is_none() const { return bits == 0; }
  bool is_several() const { return (bits & several_bit) != 0; }
  bool is_strong() const { return (bits & strong_bit) != 0; }
  Operation operation() const { return bits & ~(several_bit | strong_bit); }
};

/// Sets of marks, each stored once; they stay for the life of the device, and are few. Thread-safe.
class OperationSets {
 public:
  /// The elements of a mark; the newest last.
  std::vector<OperationMark> elements(OperationMark mark) const;
  /// A mark of several; of one element it is that element. Only the newest one where too many sets are known.
  OperationMark mark_of(std::vector<OperationMark> elements);
  /// The newest operation of several.
  Operation newest(OperationMark several) const {
    return newest_[several.operation()].load(std::memory_order_acquire);
  }

 private:
  static constexpr uint32_t capacity = 1 << 16;
  std::vector<std::atomic<Operation>> newest_ = std::vector<std::atomic<Operation>>(capacity);
  mutable std::shared_mutex mutex_;
  std::deque<std::vector<OperationMark>> sets_;
  std::map<std::vector<uint32_t>, uint32_t> numbers_;
};

}  // namespace tessera::cuda_sim
