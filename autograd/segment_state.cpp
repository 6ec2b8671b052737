#include "autograd/segment_state.h"

#include <algorithm>
#include <utility>

#include "tensor/memory/storage_owner.h"

namespace tessera {
namespace {
thread_local SegmentStateScope* current = nullptr;
}

bool SegmentState::answer(const void* owner, bool now) {
  Answers& answers = answers_[owner];
  if (!rerun_) answers.given.push_back(now);
  if (!rerun_ || answers.given.empty()) return now;
  return answers.next < answers.given.size() ? answers.given[answers.next++] : answers.given.back();
}

void SegmentState::note_parameter(const intrusive_ptr<Storage>& storage) {
  if (rerun_ || std::find(storages_.begin(), storages_.end(), storage) != storages_.end()) return;
  storages_.push_back(storage);
}

void SegmentState::begin_rerun() {
  rerun_ = true;
  for (auto& [owner, answers] : answers_) answers.next = 0;
  for (const intrusive_ptr<Storage>& storage : storages_) bring_back(*storage);
}

void SegmentState::release() {
  answers_.clear();
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
