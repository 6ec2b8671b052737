#include "tools/cuda_sim/machine/running/warp_runner.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#include "tools/cuda_sim/checks/counters.h"
#include "tools/cuda_sim/checks/site.h"
#include "tools/cuda_sim/machine/device.h"
#include "tools/cuda_sim/machine/faults.h"
#include "tools/cuda_sim/machine/running/barriers.h"

namespace tessera::cuda_sim {

namespace {

// Loops after which a group of lanes lets the others run: few where it may wait for them.
constexpr uint32_t waiting_loops = 64, any_loops = 1 << 14;
constexpr uint32_t no_counter = std::numeric_limits<uint32_t>::max();

}  // namespace

std::string describe_place(const Warp& warp, const Instruction& instruction) {
  const Site site = site_of(warp, instruction, 0);
  std::string text = site.kernel + ", ";
  if (!site.file.empty()) {
    text += site.file.substr(site.file.rfind('/') + 1);
    text += ':' + std::to_string(site.line) + ' ';
  }
  text += '`' + site.instruction;
  return text += '`';
}

WarpRunner::WarpRunner(Block& block, Warp& warp)
    : block_(&block), warp_(&warp), code_(block.program().code.data()) {}

void WarpRunner::begin() {
  loops_ = 0;
  gave_way_ = 0;
}

WarpRunner::Stop WarpRunner::run(int64_t instructions) {
  executed_ = 0;
  lane_instructions_ = 0;
  limit_ = instructions;
  stop_ = Stop::ended;
  while (true) {
    const int group = choose_group();
    if (group < 0) break;
    run_group(join_groups(group));
    if (executed_ >= limit_) {
      stop_ = Stop::turn_over;
      break;
    }
  }
  KernelCounters& counters = block_->counters();
  counters.warp_instructions += static_cast<uint64_t>(executed_);
  counters.lane_instructions += lane_instructions_;
  return stop_;
}

// The index of the group that runs next; -1 where none does, or where all of them wait in loops: stop_ says
// which.
int WarpRunner::choose_group() {
  LaneGroups& groups = warp_->groups;
  int chosen = -1;
  bool any_gave_way = false;
  for (int i = 0; i < groups.size(); ++i) {
    if (groups[i].state != LaneGroup::State::running) continue;
    if ((groups[i].lanes & gave_way_) != 0)
      any_gave_way = true;
    else if (chosen < 0 || groups[i].counter < groups[chosen].counter)
      chosen = i;
  }
  if (chosen >= 0) return chosen;
  if (any_gave_way) {
    gave_way_ = 0;
    stop_ = Stop::waiting;
  } else if (groups.empty()) {
    warp_->state = Warp::State::ended;
    stop_ = Stop::ended;
  } else {
    warp_->state = Warp::State::blocked;
    stop_ = Stop::blocked;
  }
  return -1;
}

// Makes one group of all that stand where `group` does, except those at a barrier; gives its index.
int WarpRunner::join_groups(int group) {
  LaneGroups& groups = warp_->groups;
  if (groups.size() == 1) return group;
  LaneGroup joined = groups[group];
  joined.lanes = 0;
  int parts = 0;
  for (int i = groups.size() - 1; i >= 0; --i) {
    if (groups[i].counter != joined.counter || groups[i].state == LaneGroup::State::at_barrier) continue;
    joined.lanes |= groups[i].lanes;
    groups.remove(i);
    ++parts;
  }
  if (parts > 1) loops_ = 0;
  groups.push(joined);
  return groups.size() - 1;
}

uint32_t WarpRunner::next_counter_above(uint32_t counter) const {
  uint32_t next = no_counter;
  for (const LaneGroup& group : warp_->groups)
    if (group.counter > counter) next = std::min(next, group.counter);
  return next;
}

/// Whether all lanes that a shuffle or an mma asks for are here: what nearly always holds.
inline bool WarpRunner::meets_at_once(const Instruction& instruction, LaneMask lanes) const {
  if (lanes != all_lanes) return false;
  if (instruction.flow == Flow::whole_warp) return true;
  if (instruction.flow != Flow::named_lanes || instruction.execute == nullptr) return false;
  const uint32_t* masks = warp_->values<uint32_t>(instruction.source[3]);
  uint32_t common = all_lanes;
  for (int lane = 0; lane < warp_lanes; ++lane) common &= masks[lane];
  return common == all_lanes;
}

void WarpRunner::run_group(int index) {
  Warp& warp = *warp_;
  const Instruction* const code = code_;
  LaneGroup* group = &warp.groups[index];
  uint32_t counter = group->counter;
  LaneMask lanes = group->lanes;
  uint32_t stop = next_counter_above(counter);
  int64_t executed = 0;
  uint64_t lane_instructions = 0;
  Step step = Step::next;
  while (counter < stop) {
    const Instruction& instruction = code[counter];
    LaneMask active = lanes;
    if (!instruction.guard.is_absent()) {
      const LaneMask guard = warp.predicate(instruction.guard);
      active &= instruction.guard_negated ? ~guard : guard;
    }
    ++executed;
    lane_instructions += static_cast<uint64_t>(std::popcount(active));
    if (instruction.flow == Flow::next) {
      ++counter;
      if (active == 0) continue;
      warp.active_ = active;
      instruction.execute(warp, instruction);
      continue;
    }
    if (active == 0 || instruction.flow == Flow::nothing) {
      ++counter;
      continue;
    }
    if (instruction.flow == Flow::branch) {
      if (active != lanes) {  // the lanes part: those that stay form a group of their own
        warp.groups.push({.counter = counter + 1, .lanes = lanes & ~active});
        lanes = active;
        ++block_->counters().divergent_branches;
      }
      counter = instruction.target;
      if (counter > instruction.index) {
        if (warp.groups.size() > 1) break;
        continue;
      }
      if (!loops_on(instruction, executed_ + executed, lanes)) break;
      continue;
    }
    if (meets_at_once(instruction, active)) {
      ++counter;
      warp.active_ = active;
      instruction.execute(warp, instruction);
      continue;
    }
    group->counter = counter;
    group->lanes = lanes;
    step = execute_flow(instruction, *group, active);
    if (step == Step::leave) break;
    counter = group->counter;
    lanes = group->lanes;
    stop = next_counter_above(counter);
  }
  executed_ += executed;
  lane_instructions_ += lane_instructions;
  if (step == Step::leave) return;
  group->counter = counter;
  group->lanes = lanes;
}

// At the end of a loop: whether the group may go on.
bool WarpRunner::loops_on(const Instruction& branch, int64_t executed, LaneMask lanes) {
  const bool is_alone = warp_->groups.size() == 1;
  const bool may_wait = branch.flags[0] != 0;
  if (++loops_ >= (may_wait ? waiting_loops : any_loops)) {
    loops_ = 0;
    if (may_wait || !is_alone) {
      gave_way_ |= lanes;
      return false;
    }
  }
  return is_alone && executed < limit_;
}

WarpRunner::Step WarpRunner::execute_flow(const Instruction& instruction, LaneGroup& group, LaneMask lanes) {
  switch (instruction.flow) {
    case Flow::exit:
      return end_lanes(instruction, group, lanes);
    case Flow::branch_table:
      return take_table(instruction, group, lanes);
    case Flow::named_lanes:
      return is_warp_barrier(instruction) ? at_warp_barrier(instruction, group, lanes)
                                          : at_named_lanes(instruction, group, lanes);
    case Flow::whole_warp:
      return at_whole_warp(instruction, group, lanes);
    case Flow::barrier:
      return at_barrier(instruction, group, lanes);
    default:
      throw std::logic_error("an instruction of which the flow is not known");
  }
}

WarpRunner::Step WarpRunner::end_lanes(const Instruction& instruction, LaneGroup& group, LaneMask lanes) {
  warp_->exited |= lanes;
  warp_->last_exit = &instruction;
  group.lanes &= ~lanes;
  ++group.counter;
  if (group.lanes == 0) warp_->groups.remove(static_cast<int>(&group - warp_->groups.begin()));
  wake_waiting();
  block_->barriers().lanes_ended(static_cast<uint32_t>(std::popcount(lanes)));
  return Step::leave;
}

// Groups that wait for lanes look again whether those that they wait for are here.
void WarpRunner::wake_waiting() {
  for (LaneGroup& group : warp_->groups)
    if (group.state == LaneGroup::State::waiting_for_lanes) group.state = LaneGroup::State::running;
}

// Control Flow Instructions: brx.idx
WarpRunner::Step WarpRunner::take_table(const Instruction& instruction, LaneGroup& group, LaneMask lanes) {
  const auto& table = warp_->program().branch_tables[static_cast<size_t>(instruction.immediate)];
  const uint32_t* index = warp_->values<uint32_t>(instruction.source[0]);
  const LaneMask stay = group.lanes & ~lanes;
  warp_->groups.remove(static_cast<int>(&group - warp_->groups.begin()));
  if (stay != 0) warp_->groups.push({.counter = instruction.index + 1, .lanes = stay});
  for (LaneMask left = lanes; left != 0;) {
    const int lane = std::countr_zero(left);
    const LaneMask same = lanes_with(index, left, index[lane]);
    if (index[lane] >= table.size())
      throw KernelFault(illegal_instruction, describe_place(*warp_, instruction) + ": index " +
                                                 std::to_string(index[lane]) + " of a table of " +
                                                 std::to_string(table.size()) + " targets");
    warp_->groups.push({.counter = table[index[lane]], .lanes = same});
    left &= ~same;
  }
  return Step::leave;
}

// Lets the lanes of `group` that are not in `waiting` go on behind the instruction. The others stand at it.
WarpRunner::Step WarpRunner::hold(LaneGroup& group, LaneMask waiting, LaneGroup::State state,
                                  uint8_t barrier) {
  if (waiting == 0) {
    ++group.counter;
    return Step::next;
  }
  LaneGroup held = group;
  held.lanes = waiting;
  held.state = state;
  held.barrier = barrier;
  const LaneMask go_on = group.lanes & ~waiting;
  if (go_on == 0) {
    group = held;
  } else {
    group.lanes = go_on;
    ++group.counter;
    warp_->groups.push(held);
  }
  return Step::leave;
}

}  // namespace tessera::cuda_sim
