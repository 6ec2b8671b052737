// Order among the threads of one block, as the race check needs it.
#pragma once

#include <array>
#include <cstdint>

#include "tools/cuda_sim/checks/operation_order.h"
#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/checks/races/epoch_table.h"
#include "tools/cuda_sim/checks/races/launch_order.h"
#include "tools/cuda_sim/checks/races/operation_sets.h"
#include "tools/cuda_sim/checks/races/rule_memory.h"
#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim {

class Warp;

/// Remembers set + entry = set, so that an access that a thousand cells see alike is worked out once.
class SetCache {
 public:
  struct Row {
    uint32_t set = 0;
    SetEntry entry;
    uint32_t result = 0;
  };
  Row& row(uint32_t set, const SetEntry& entry) {
    const uint32_t hash =
        (set * 0x9e3779b9u) ^ (entry.stamp.bits * 0x85ebca6bu) ^ (entry.lanes * 0xc2b2ae35u);
    return rows_[(hash ^ hash >> 15) % rows_.size()];
  }
  void clear() { rows_.fill(Row{}); }

 private:
  std::array<Row, 512> rows_{};
};

/// The running block's part in the race check: its epochs and caches. Used by one host thread at a time.
class ThreadOrder {
 public:
  /// A block begins.
  void begin(uint64_t block, Operation operation);
  /// The next access begins a block, be it of the same number.
  void forget_block() { block_ = ~uint64_t{0}; }
  bool is_begun(uint64_t block, Operation operation) const {
    return block == block_ && operation == operation_;
  }

  /// The epoch of `warp` now, in the table of global or of shared accesses.
  uint32_t global_epoch(const Warp& warp, EpochTable& table) { return epoch(warp, table, 0); }
  uint32_t shared_epoch(const Warp& warp, EpochTable& table) { return epoch(warp, table, 1); }
  /// A release: what the warp does from here on is distinguished from what it did.
  void end_part(const Warp& warp);

  uint32_t block() const { return static_cast<uint32_t>(block_); }

  /// Whether `earlier` is ordered before the running operation, remembered.
  bool is_ordered(const OperationOrder& order, Operation earlier);
  /// Remembers that none of several operations is unordered with an access of the running one.
  bool is_harmless(OperationMark several, bool is_plain) const {
    return harmless_[several.bits % harmless_.size()] == key_of(several, is_plain);
  }
  void set_harmless(OperationMark several, bool is_plain) {
    harmless_[several.bits % harmless_.size()] = key_of(several, is_plain);
  }
  /// Releases of `warp` since its last synchronisation.
  uint32_t part(const Warp& warp) { return of(warp).part; }

  /// Bytes of which the readers are so many that one more says nothing, as long as the operation runs: a
  /// write to them is found by the writer. Spares the lock of a page that all blocks read.
  bool is_read_by_all(uint64_t address, uint32_t bytes) const {
    const ReadRange& range = read_by_all_[read_range_of(address)];
    return range.address == address && range.bytes == bytes;
  }
  void set_read_by_all(uint64_t address, uint32_t bytes) {
    read_by_all_[read_range_of(address)] = {address, bytes};
  }

  /// What is known of accesses of a kind.
  RuleMemory& global_memory(AccessKind kind) { return global_memory_[is_write(kind)]; }
  RuleMemory& shared_memory(AccessKind kind) { return shared_memory_[is_write(kind)]; }

  SetCache global_sets, shared_sets;
  BlockReleases releases;

 private:
  struct WarpEpoch {
    uint32_t tick = 0, part = 0;
    std::array<uint32_t, 2> number{};  ///< 0: none yet
  };
  struct ReadRange {
    uint64_t address = 0;
    uint32_t bytes = 0;
  };
  struct Answer {
    Operation earlier = 0;
    bool is_ordered = true;
  };
  uint32_t epoch(const Warp& warp, EpochTable& table, size_t which);
  WarpEpoch& of(const Warp& warp);
  static size_t read_range_of(uint64_t address) {  // accesses are often at multiples of 128 or 512
    return (address >> 7 ^ address >> 14) % std::tuple_size_v<decltype(read_by_all_)>;
  }
  static uint32_t key_of(OperationMark several, bool is_plain) {
    return several.bits | (is_plain ? OperationMark::strong_bit : 0);
  }

  uint64_t block_ = ~uint64_t{0};
  Operation operation_ = 0;
  std::array<WarpEpoch, max_warps_per_block> warps_;
  std::array<Answer, 64> answers_{};
  std::array<uint32_t, 16> harmless_{};
  std::array<ReadRange, 256> read_by_all_{};
  std::array<RuleMemory, 2> global_memory_, shared_memory_;
};

}  // namespace tessera::cuda_sim
