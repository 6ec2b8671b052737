// 32 threads that execute together: registers, program counters, and what is active now.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

class Block;

/// A copy by cp.async that is on its way to shared memory.
struct PendingCopy {
  const std::byte* from = nullptr;  ///< null: zeros
  uint32_t to = 0;                  ///< offset in the block's shared memory
  uint8_t bytes = 0, valid_bytes = 0, lane = 0;
  const Instruction* instruction = nullptr;
};

/// Lanes with the same program counter. Lanes that branch apart become groups of their own; the group with
/// the lowest counter runs first, and groups that meet at one counter become one again.
struct LaneGroup {
  enum class State : uint8_t { running, waiting_for_lanes, at_barrier };
  uint32_t counter = 0;
  LaneMask lanes = 0;
  State state = State::running;
  uint8_t barrier = 0;  ///< number of the barrier at which it stands
};

/// The groups of a warp: at most one per lane, no allocation.
class LaneGroups {
 public:
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  LaneGroup& operator[](int i) { return groups_[static_cast<size_t>(i)]; }
  const LaneGroup& operator[](int i) const { return groups_[static_cast<size_t>(i)]; }
  LaneGroup* begin() { return groups_.data(); }
  LaneGroup* end() { return groups_.data() + size_; }
  const LaneGroup* begin() const { return groups_.data(); }
  const LaneGroup* end() const { return groups_.data() + size_; }
  void clear() { size_ = 0; }
  void push(const LaneGroup& group) { groups_[static_cast<size_t>(size_++)] = group; }
  /// The last group takes the place of group `i`.
  void remove(int i) { (*this)[i] = (*this)[--size_]; }

 private:
  int size_ = 0;
  std::array<LaneGroup, warp_lanes> groups_;
};

class Warp {
 public:
  /// The 32 values at `place`.
  template <class T>
  T* values(Place place) {
    return reinterpret_cast<T*>(banks_[place.bank()] + place.offset());
  }
  template <class T>
  const T* values(Place place) const {
    return reinterpret_cast<const T*>(banks_[place.bank()] + place.offset());
  }
  /// The predicate at `place`: bit l belongs to lane l.
  LaneMask& predicate(Place place) { return *values<LaneMask>(place); }

  /// Lanes for which the current instruction executes.
  LaneMask active() const { return active_; }
  int active_count() const { return std::popcount(active_); }
  Block& block() { return *block_; }
  const Block& block() const { return *block_; }
  const Program& program() const { return *program_; }
  uint32_t number() const { return number_; }  ///< in its block
  std::byte* local_memory(int lane) {
    return local_.data() + static_cast<size_t>(lane) * program_->local_bytes;
  }

  // The state below belongs to the machine (warp_runner.cpp, block.cpp, asynchronous copies), not to
  // arithmetic.
  enum class State : uint8_t { running, blocked, ended };
  State state = State::running;  ///< blocked: every group waits for a barrier or for lanes that do
  LaneGroups groups;
  /// Live allocations that the warp's instructions accessed last, by their index, as bytes [begin, end), and
  /// DeviceMemory::generation() when they were asked for.
  struct LiveRange {
    uint64_t begin = 0, end = 0, generation = 0;
  };
  std::array<LiveRange, 32> ranges;
  LaneMask existing = 0;  ///< lanes that the block has
  LaneMask exited = 0;
  const Instruction* last_exit = nullptr;  ///< where lanes ended
  LaneMask live() const { return existing & ~exited; }
  std::vector<std::vector<PendingCopy>> copies;  ///< groups of cp.async; the last one is open
  std::array<uint32_t, max_warps_per_block>
      clock{};  ///< vector clock over the block's warps, for the race check
  /// bar.warp.sync of some lanes that ended a tick of the warp's own clock; for the race check.
  struct PartialSync {
    uint32_t tick;
    LaneMask lanes;
  };
  std::vector<PartialSync> partial_syncs;
  LaneMask carry = 0;  ///< the carry flag CC.CF of each lane: add.cc, addc, ...

 private:
  friend class Block;
  friend class WarpRunner;
  std::array<std::byte*, 2> banks_{};
  LaneMask active_ = 0;
  Block* block_ = nullptr;
  const Program* program_ = nullptr;
  uint32_t number_ = 0;
  LaneBytes registers_;
  std::vector<std::byte> local_;
};

/// Calls `body(lane)` for the active lanes. With all of them active the loop has no branch and is vectorised.
template <class Body>
inline __attribute__((always_inline)) void for_active_lanes(const Warp& warp, Body body) {
  const LaneMask active = warp.active();
  if (active == all_lanes) {
    for (int lane = 0; lane < warp_lanes; ++lane) body(lane);
  } else {
    for (LaneMask left = active; left != 0; left &= left - 1) body(std::countr_zero(left));
  }
}

}  // namespace tessera::cuda_sim
