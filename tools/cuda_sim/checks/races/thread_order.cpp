#include "tools/cuda_sim/checks/races/thread_order.h"

#include "tools/cuda_sim/machine/warp.h"

namespace tessera::cuda_sim {

void ThreadOrder::begin(uint64_t block, Operation operation) {
  if (operation != operation_) {
    answers_.fill(Answer{});
    harmless_.fill(0);
    read_by_all_.fill(ReadRange{});
    global_sets.clear();
  }
  block_ = block;
  operation_ = operation;
  shared_sets.clear();
  warps_.fill(WarpEpoch{});
  releases.clear();
  for (auto* memories : {&global_memory_, &shared_memory_})
    for (RuleMemory& memory : *memories) memory.clear();
}

ThreadOrder::WarpEpoch& ThreadOrder::of(const Warp& warp) {
  WarpEpoch& state = warps_[warp.number()];
  const uint32_t tick = warp.clock[warp.number()];
  if (state.tick != tick) state = {.tick = tick, .part = 0, .number = {}};
  return state;
}

uint32_t ThreadOrder::epoch(const Warp& warp, EpochTable& table, size_t which) {
  WarpEpoch& state = of(warp);
  if (state.number[which] == 0)
    state.number[which] =
        table.add({.block = block(), .warp = warp.number(), .tick = state.tick, .part = state.part});
  return state.number[which];
}

void ThreadOrder::end_part(const Warp& warp) {
  WarpEpoch& state = of(warp);
  ++state.part;
  state.number = {};
}

bool ThreadOrder::is_ordered(const OperationOrder& order, Operation earlier) {
  Answer& answer = answers_[earlier % answers_.size()];
  if (answer.earlier != earlier) answer = {earlier, order.is_ordered(earlier, operation_)};
  return answer.is_ordered;
}

}  // namespace tessera::cuda_sim
