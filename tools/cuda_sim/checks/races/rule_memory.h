// What the rules found out about an access, for the accesses like it that follow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tools/cuda_sim/checks/races/access_sets.h"
#include "tools/cuda_sim/checks/races/transition.h"

namespace tessera::cuda_sim {

/// Transitions of cells by plain accesses of one kind in one epoch of a warp, where nothing was wrong: what
/// is ordered stays ordered, so they hold until the epoch ends. Belongs to a running block.
class RuleMemory {
 public:
  /// What of the state after an access is the access's own stamp, whichever that is.
  enum class Follows : uint8_t { nothing, write, access };
  struct Known {
    Transition transition;
    SetEntry by;
    Follows follows = Follows::nothing;
    bool is_read_by_all = false;  ///< CellRules::is_read_by_all of the cells
  };

  /// An access begins. What is known of another epoch or kind of access is forgotten.
  void begin(uint32_t epoch, AccessKind kind, bool begins_copy) {
    const uint64_t key = uint64_t{epoch} << 8 | static_cast<uint64_t>(kind) << 1 | (begins_copy ? 1 : 0);
    if (key == key_ && epoch != Stamp::unknown_epoch) return;  // warps share the unknown epoch
    clear();
    key_ = key;
  }
  void clear() {
    known_ = 0;
    settled_.fill(0);
    key_ = 0;
  }

  /// What is known of cells in this state; null: nothing.
  Known* find(const Cell& cell) {
    const size_t slot = slot_of(cell);
    return (known_ >> slot & 1) != 0 ? &slots_[slot] : nullptr;
  }
  /// The place for it.
  Known& make(const Cell& cell) {
    const size_t slot = slot_of(cell);
    known_ |= 1u << slot;
    return slots_[slot];
  }

  /// Whether all lanes come after all that another epoch of the block did.
  bool is_settled(uint32_t epoch) const { return settled_[epoch % settled_.size()] == epoch; }
  void settle(uint32_t epoch) { settled_[epoch % settled_.size()] = epoch; }

 private:
  /// The same for cells that differ only in lanes.
  static size_t slot_of(const Cell& cell) {
    const uint32_t access = cell.access.is_set() ? cell.access.set() : cell.access.epoch();
    return (cell.write.epoch() + access) % std::tuple_size_v<decltype(slots_)>;
  }

  uint64_t key_ = 0;
  uint32_t known_ = 0;  ///< bit s: slot s
  std::array<Known, 8> slots_;
  std::array<uint32_t, 8> settled_{};  ///< 0: of operations
};

}  // namespace tessera::cuda_sim
