#include "autograd/segment_state.h"

#include <utility>

namespace tessera {
namespace {
thread_local SegmentStateScope* current = nullptr;
}

bool SegmentState::answer(const void* owner, bool now) {
  const auto [entry, is_new] = answers_.try_emplace(owner, now);
  if (!rerun_ && !is_new) entry->second = now;
  return entry->second;
}

SegmentStateScope::SegmentStateScope(SegmentState& state)
    : state_(state), outer_(std::exchange(current, this)) {}
SegmentStateScope::~SegmentStateScope() {
  current = outer_;
}

bool as_in_first_run(const void* owner, bool now) {
  if (!current) [[likely]]
    return now;
  // From the outermost segment inwards: a segment inside one that runs again takes that one's answer.
  const auto ask = [owner](const auto& self, SegmentStateScope* scope, bool present) -> bool {
    if (scope->outer_) present = self(self, scope->outer_, present);
    return scope->state_.answer(owner, present);
  };
  return ask(ask, current, now);
}

}  // namespace tessera
