// Carries out a warp's instructions: which lanes run next, where they meet again.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

/// Runs one warp for a while.
///
/// Lanes with one program counter are a group. The group with the lowest counter runs, up to the counter of
/// the next group, with which it becomes one: lanes that a branch parted meet where their paths join. A group
/// that has gone around loops for long gives way to the others, so that lanes may wait for each other.
class WarpRunner {
 public:
  WarpRunner(Block& block, Warp& warp);
  /// A block begins.
  void begin();

  enum class Stop : uint8_t {
    turn_over,  ///< it ran as many instructions as it was given
    waiting,    ///< its lanes go around loops that may wait for other threads
    blocked,    ///< at barriers
    ended,
  };
  /// Runs about `instructions` instructions; it stops at the ends of loops.
  Stop run(int64_t instructions);
  int64_t executed() const { return executed_; }  ///< by the last run()

 private:
  /// Whether the group goes on, or another one is chosen.
  enum class Step : uint8_t { next, leave };

  int choose_group();
  int join_groups(int group);
  uint32_t next_counter_above(uint32_t counter) const;
  bool meets_at_once(const Instruction& instruction, LaneMask lanes) const;
  void run_group(int group);
  bool loops_on(const Instruction& branch, int64_t executed, LaneMask lanes);
  Step execute_flow(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step end_lanes(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step take_table(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step hold(LaneGroup& group, LaneMask waiting, LaneGroup::State state, uint8_t barrier = 0);
  void wake_waiting();

  // meeting_points.cpp
  Step at_named_lanes(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step at_warp_barrier(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step at_whole_warp(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  Step at_barrier(const Instruction& instruction, LaneGroup& group, LaneMask lanes);
  template <class Visit>
  void visit_warp_barriers(LaneMask mask, Visit visit);
  LaneMask waiting_at_warp_barriers(LaneMask mask);
  void release_warp_barriers(LaneMask mask);
  void report_unnamed(const Instruction& instruction, LaneMask lanes);

  Block* block_;
  Warp* warp_;
  const Instruction* code_;
  int64_t executed_ = 0, limit_ = 0;
  uint64_t lane_instructions_ = 0;
  Stop stop_ = Stop::ended;
  uint32_t loops_ = 0;     ///< since the running group was chosen or joined
  LaneMask gave_way_ = 0;  ///< lanes of groups that let the others run
};

/// Lanes of `lanes` of which the value is `value`.
inline LaneMask lanes_with(const uint32_t* values, LaneMask lanes, uint32_t value) {
  LaneMask same = 0;
  for (LaneMask left = lanes; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    if (values[lane] == value) same |= 1u << lane;
  }
  return same;
}

/// bar.warp.sync: it executes nothing.
inline bool is_warp_barrier(const Instruction& instruction) {
  return instruction.flow == Flow::named_lanes && instruction.execute == nullptr;
}

/// "layer_norm, norm.cu:12 `bar.sync 0`".
std::string describe_place(const Warp& warp, const Instruction& instruction);

}  // namespace tessera::cuda_sim
