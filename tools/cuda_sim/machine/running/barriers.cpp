#include "tools/cuda_sim/machine/running/barriers.h"

#include <algorithm>
#include <bit>
#include <string>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/block.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/running/warp_runner.h"

namespace tessera::cuda_sim {

void Barriers::reset() {
  barriers_.fill({});
  waiting_ = 0;
  live_ = block_->threads();
}

void Barriers::arrive(Warp& warp, const Instruction& instruction, uint32_t number, LaneMask lanes) {
  Barrier& barrier = barriers_[number];
  const int first = std::countr_zero(lanes);
  const auto threads = static_cast<uint32_t>(std::popcount(lanes));
  if (!instruction.source[1].is_absent()) {
    barrier.expected = warp.values<uint32_t>(instruction.source[1])[first];
    // Counts are of whole warps: one that lacks lanes counts as a full one.
    barrier.arrived += lanes == warp.live() ? uint32_t{warp_lanes} : threads;
  } else {
    barrier.arrived += threads;
  }
  if (instruction.barrier != BarrierKind::sync && instruction.barrier != BarrierKind::arrive) {
    const LaneMask predicate =
        warp.predicate(instruction.source[2]) ^ (instruction.source_negated ? all_lanes : 0);
    barrier.holding += static_cast<uint32_t>(std::popcount(predicate & lanes));
    barrier.reduced += threads;
  }
  for (size_t i = 0; i < block_->warps().size(); ++i)
    barrier.clock[i] = std::max(barrier.clock[i], warp.clock[i]);
  ++warp.clock[warp.number()];
  waiting_ |= 1u << number;
  if (is_complete(barrier)) complete(number);
}

bool Barriers::is_complete(const Barrier& barrier) const {
  return barrier.arrived >= (barrier.expected == 0 ? live_ : barrier.expected);
}

void Barriers::lanes_ended(uint32_t lanes) {
  live_ -= lanes;
  for (uint32_t left = waiting_; left != 0; left &= left - 1) {
    const auto number = static_cast<uint32_t>(std::countr_zero(left));
    if (barriers_[number].expected == 0 && is_complete(barriers_[number])) complete(number);
  }
}

void Barriers::complete(uint32_t number) {
  Barrier& barrier = barriers_[number];
  if (barrier.expected == 0 && live_ < block_->threads()) report_absent(number);
  for (Warp& warp : block_->warps())
    for (LaneGroup& group : warp.groups)
      if (group.state == LaneGroup::State::at_barrier && group.barrier == number)
        release(warp, group, barrier);
  barrier = {};
  waiting_ &= ~(1u << number);
  ++completed_;
  ++block_->counters().barriers;
}

void Barriers::release(Warp& warp, LaneGroup& group, const Barrier& barrier) {
  const Instruction& instruction = block_->program().code[group.counter];
  if (instruction.barrier == BarrierKind::count) {
    auto* out = warp.values<uint32_t>(instruction.destination[0]);
    for (LaneMask left = group.lanes; left != 0; left &= left - 1)
      out[std::countr_zero(left)] = barrier.holding;
  } else if (instruction.barrier != BarrierKind::sync) {
    const bool holds =
        instruction.barrier == BarrierKind::all ? barrier.holding == barrier.reduced : barrier.holding != 0;
    LaneMask& out = warp.predicate(instruction.destination[0]);
    out = (out & ~group.lanes) | (holds ? group.lanes : 0);
  }
  for (size_t i = 0; i < block_->warps().size(); ++i)
    warp.clock[i] = std::max(warp.clock[i], barrier.clock[i]);
  group.state = LaneGroup::State::running;
  ++group.counter;
  warp.state = Warp::State::running;
}

// A barrier of all threads that some of them left the kernel without.
void Barriers::report_absent(uint32_t number) {
  Findings& findings = block_->device().findings();
  if (!findings.is_on(Check::divergence)) return;
  for (const Warp& gone : block_->warps()) {
    if (gone.exited == 0) continue;
    const int thread = static_cast<int>(gone.number()) * warp_lanes + std::countr_zero(gone.exited);
    for (const Warp& warp : block_->warps())
      for (const LaneGroup& group : warp.groups)
        if (group.state == LaneGroup::State::at_barrier && group.barrier == number) {
          findings.add(Check::divergence,
                       "a barrier of all " + std::to_string(block_->threads()) +
                           " threads of the block, which " + std::to_string(block_->threads() - live_) +
                           " of them never reach: thread " + std::to_string(thread) + " ended at " +
                           describe_place(gone, *gone.last_exit),
                       site_of(warp, block_->program().code[group.counter], std::countr_zero(group.lanes)));
          return;
        }
  }
}

}  // namespace tessera::cuda_sim
