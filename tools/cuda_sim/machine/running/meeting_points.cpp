// Instructions at which lanes wait for each other: shuffles and votes, mma, barriers of a warp and of a
// block.
#include <bit>
#include <string>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/running/barriers.h"
#include "tools/cuda_sim/machine/running/warp_runner.h"

namespace tessera::cuda_sim {

// Lanes may name different masks: the halves of a warp, each for itself.
WarpRunner::Step WarpRunner::at_named_lanes(const Instruction& instruction, LaneGroup& group,
                                            LaneMask lanes) {
  const uint32_t* masks = warp_->values<uint32_t>(instruction.source[3]);
  LaneMask done = 0;
  for (LaneMask left = lanes; left != 0;) {
    const uint32_t mask = masks[std::countr_zero(left)];
    const LaneMask here = lanes_with(masks, left, mask);
    left &= ~here;
    report_unnamed(instruction, here & ~mask);
    if ((mask & warp_->live() & ~here) != 0) continue;
    warp_->active_ = here;
    instruction.execute(*warp_, instruction);
    done |= here;
  }
  return hold(group, lanes & ~done, LaneGroup::State::waiting_for_lanes);
}

// Parallel Synchronization and Communication Instructions: bar.warp.sync. Lanes that name the same mask may
// come to it at different places of the program.
WarpRunner::Step WarpRunner::at_warp_barrier(const Instruction& instruction, LaneGroup& group,
                                             LaneMask lanes) {
  const uint32_t* masks = warp_->values<uint32_t>(instruction.source[3]);
  LaneMask done = 0;
  for (LaneMask left = lanes; left != 0;) {
    const uint32_t mask = masks[std::countr_zero(left)];
    const LaneMask here = lanes_with(masks, left, mask);
    left &= ~here;
    report_unnamed(instruction, here & ~mask);
    if ((mask & warp_->live() & ~(here | waiting_at_warp_barriers(mask))) != 0) continue;
    release_warp_barriers(mask);
    if ((warp_->existing & ~mask) != 0) warp_->partial_syncs.push_back({warp_->clock[warp_->number()], mask});
    ++warp_->clock[warp_->number()];
    done |= here;
  }
  return hold(group, lanes & ~done, LaneGroup::State::waiting_for_lanes);
}

/// Calls visit(group, lanes) for each group that waits at a bar.warp.sync with lanes that name `mask`.
template <class Visit>
void WarpRunner::visit_warp_barriers(LaneMask mask, Visit visit) {
  LaneGroups& groups = warp_->groups;
  for (int i = groups.size() - 1; i >= 0; --i) {
    const Instruction& instruction = code_[groups[i].counter];
    if (groups[i].state != LaneGroup::State::waiting_for_lanes || !is_warp_barrier(instruction)) continue;
    const LaneMask same = lanes_with(warp_->values<uint32_t>(instruction.source[3]), groups[i].lanes, mask);
    if (same != 0) visit(groups[i], same);
  }
}

LaneMask WarpRunner::waiting_at_warp_barriers(LaneMask mask) {
  LaneMask waiting = 0;
  visit_warp_barriers(mask, [&](const LaneGroup&, LaneMask lanes) { waiting |= lanes; });
  return waiting;
}

void WarpRunner::release_warp_barriers(LaneMask mask) {
  visit_warp_barriers(mask, [&](LaneGroup& group, LaneMask lanes) {
    if (lanes == group.lanes) {
      group.state = LaneGroup::State::running;
      ++group.counter;
    } else {
      group.lanes &= ~lanes;
      warp_->groups.push({.counter = group.counter + 1, .lanes = lanes});
    }
  });
}

void WarpRunner::report_unnamed(const Instruction& instruction, LaneMask lanes) {
  if (lanes == 0 || !block_->device().findings().is_on(Check::divergence)) return;
  const int lane = std::countr_zero(lanes);
  block_->device().findings().add(
      Check::divergence, "lane " + std::to_string(lane) + " is not in the mask of lanes that it names",
      site_of(*warp_, instruction, lane));
}

WarpRunner::Step WarpRunner::at_whole_warp(const Instruction& instruction, LaneGroup& group, LaneMask lanes) {
  const LaneMask live = warp_->live();
  if (lanes != live) return hold(group, lanes, LaneGroup::State::waiting_for_lanes);
  if (live != all_lanes && block_->device().findings().is_on(Check::divergence))
    block_->device().findings().add(Check::divergence,
                                    "an instruction of the whole warp, of which only " +
                                        std::to_string(std::popcount(live)) + " lanes are there",
                                    site_of(*warp_, instruction, std::countr_zero(live)));
  warp_->active_ = lanes;
  instruction.execute(*warp_, instruction);
  ++group.counter;
  return Step::next;
}

// Parallel Synchronization and Communication Instructions: bar, barrier
WarpRunner::Step WarpRunner::at_barrier(const Instruction& instruction, LaneGroup& group, LaneMask lanes) {
  const bool may_part = instruction.flags[0] != 0;
  if (!may_part && lanes != warp_->live()) return hold(group, lanes, LaneGroup::State::waiting_for_lanes);
  const uint32_t number = warp_->values<uint32_t>(instruction.source[0])[std::countr_zero(lanes)];
  if (number >= Barriers::count)
    throw KernelFault(illegal_instruction, describe_place(*warp_, instruction) + ": barrier " +
                                               std::to_string(number) + " is none of the 16 of a block");
  const bool waits = instruction.barrier != BarrierKind::arrive;
  const Step step =
      hold(group, waits ? lanes : 0, LaneGroup::State::at_barrier, static_cast<uint8_t>(number));
  block_->barriers().arrive(*warp_, instruction, number, lanes);
  return step;
}

}  // namespace tessera::cuda_sim
