#include "autograd/recompute/segment_state.h"

#include <algorithm>
#include <utility>

#include "tensor/memory/storage_owner.h"

namespace tessera {
namespace {
thread_local SegmentStateScope* current = nullptr;
}

bool SegmentState::state_of(const void* owner, bool present) {
  States& states = states_[owner];
  if (!rerun_) states.stored.push_back(present);
  if (!rerun_ || states.stored.empty()) return present;
  return states.next < states.stored.size() ? states.stored[states.next++] : states.stored.back();
}

void SegmentState::note_parameter(const intrusive_ptr<Storage>& storage) {
  if (rerun_ || std::find(storages_.begin(), storages_.end(), storage) != storages_.end()) return;
  storages_.push_back(storage);
}

void SegmentState::begin_rerun() {
  rerun_ = true;
  for (auto& [owner, states] : states_) states.next = 0;
  for (const intrusive_ptr<Storage>& storage : storages_) ensure_values(*storage);
}

void SegmentState::release() {
  states_.clear();
  storages_.clear();
}

void note_parameter_of_segment(const Tensor& parameter) {
  if (!current || !owner_of(*parameter.storage())) [[likely]]
    return;
  for (SegmentStateScope* scope = current; scope; scope = scope->outer_)
    scope->state_.note_parameter(parameter.storage());
}

SegmentStateScope::SegmentStateScope(SegmentState& state)
    : state_(state), outer_(std::exchange(current, this)) {}
SegmentStateScope::~SegmentStateScope() {
  current = outer_;
}

bool state_in_first_run(const void* owner, bool present) {
  if (!current) [[likely]]
    return present;
  // From the outermost segment inwards: a nested segment takes the state that the outer one returns.
  const auto read = [owner](const auto& self, SegmentStateScope* scope, bool state) -> bool {
    if (scope->outer_) state = self(self, scope->outer_, state);
    return scope->state_.state_of(owner, state);
  };
  return read(read, current, present);
}

}  // namespace tessera
