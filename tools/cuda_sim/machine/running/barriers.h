// The 16 barriers of a block.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

class Block;

/// Counts arrivals and lets the waiting groups of lanes go on when the last one is there (PTX ISA, "Parallel
/// Synchronization and Communication Instructions: barrier").
///
/// A barrier orders memory accesses of its warps: those before an arrival are before all that follows a wait.
/// The warps' vector clocks say so to the race check.
class Barriers {
 public:
  static constexpr uint32_t count = 16;

  explicit Barriers(Block& block) : block_(&block) {}
  /// A block begins.
  void reset();
  /// Lanes of a warp arrive. Groups that wait have Warp::groups' state `at_barrier` already.
  void arrive(Warp& warp, const Instruction& instruction, uint32_t number, LaneMask lanes);
  /// Lanes end: a barrier of all threads waits for fewer of them.
  void lanes_ended(uint32_t lanes);
  uint64_t completed() const { return completed_; }

 private:
  struct Barrier {
    uint32_t arrived = 0;   ///< threads
    uint32_t expected = 0;  ///< threads; 0: all that live
    uint32_t holding = 0;   ///< threads for which a reduction's predicate holds
    uint32_t reduced = 0;   ///< threads in a reduction
    std::array<uint32_t, max_warps_per_block> clock{};
  };

  bool is_complete(const Barrier& barrier) const;
  void complete(uint32_t number);
  void release(Warp& warp, LaneGroup& group, const Barrier& barrier);
  void report_absent(uint32_t number);

  Block* block_;
  uint32_t live_ = 0;
  uint32_t waiting_ = 0;  ///< bit per barrier: threads have arrived
  uint64_t completed_ = 0;
  std::array<Barrier, count> barriers_;
};

}  // namespace tessera::cuda_sim
