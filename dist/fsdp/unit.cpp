#include "dist/fsdp/unit.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::dist {

Unit::Unit(UnitPlan plan, const FlatOptions& options) : name_(std::move(plan.name)), module_(plan.module) {
  std::map<std::pair<DType, bool>, std::vector<UnitParameter>> kinds;
  std::vector<std::pair<DType, bool>> order;
  for (UnitParameter& parameter : plan.parameters) {
    const std::pair kind{parameter.variable.dtype(), parameter.variable.requires_grad()};
    if (!kinds.contains(kind)) order.push_back(kind);
    kinds[kind].push_back(std::move(parameter));
  }
  for (const auto& kind : order)
    flats_.push_back(std::make_unique<FlatParameter>(name_, std::move(kinds[kind]), options));
}

bool Unit::is_trainable() const {
  return std::any_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->is_trainable(); });
}

int64_t Unit::parameter_count() const {
  int64_t count = 0;
  for (const auto& flat : flats_) count += std::ssize(flat->parameters());
  return count;
}

void Unit::materialize(Device device, uint64_t seed) {
  for (const auto& flat : flats_) flat->materialize(device, seed);
  state_ = is_gathered() ? State::unsharded : State::sharded;
}

bool Unit::is_gathered() const {
  return std::all_of(flats_.begin(), flats_.end(), [](const auto& flat) { return flat->is_gathered(); });
}

void Unit::unshard() {
  ++hold_count_;
  gather();
}

void Unit::unshard(Hold hold) {
  if (!std::exchange(holds_[static_cast<size_t>(hold)], true)) ++hold_count_;
  gather();
}

void Unit::gather() {
  if (is_gathered()) return;
  for (const auto& flat : flats_) flat->start_gather();
  state_ = State::gathering;
}

void Unit::prefetch(int64_t most) {
  int64_t started = 0;
  if (!is_gathered()) {
    for (const auto& flat : flats_) started += flat->start_gather(most - started);
    if (started == 0 && !is_gathered()) return;
    state_ = State::gathering;
  }
  elements_ahead_ += started;
  if (!std::exchange(holds_[static_cast<size_t>(Hold::prefetch)], true)) ++hold_count_;
}

void Unit::wait() {
  if (state_ == State::unsharded) return;
  for (const auto& flat : flats_) flat->wait_gather();
  state_ = State::unsharded;
}

void Unit::reshard() {
  if (--hold_count_ > 0) return;
  for (const auto& flat : flats_) flat->release_full();
  if (!is_gathered()) state_ = State::sharded;
}

void Unit::reshard(Hold hold) {
  if (hold == Hold::prefetch) elements_ahead_ = 0;
  if (std::exchange(holds_[static_cast<size_t>(hold)], false)) reshard();
}

void Unit::release_holds() {
  for (const Hold hold : {Hold::prefetch, Hold::kept, Hold::backward}) reshard(hold);
}

void Unit::prepare_gradients() {
  for (const auto& flat : flats_) flat->gradient().prepare();
}

void Unit::mark_unreduced() {
  for (const auto& flat : flats_)
    if (flat->is_trainable()) flat->gradient().mark_unreduced();
}

bool Unit::has_unreduced() const {
  return std::any_of(flats_.begin(), flats_.end(),
                     [](const auto& flat) { return flat->gradient().has_unreduced(); });
}

void Unit::reduce() {
  for (const auto& flat : flats_)
    if (flat->is_trainable()) flat->gradient().start_reduce();
  reducing_ = true;
}

void Unit::finish_reduce() {
  if (!std::exchange(reducing_, false)) return;
  for (const auto& flat : flats_) flat->gradient().finish_reduce();
}

void Unit::abandon() {
  for (const auto& flat : flats_) flat->gradient().abandon();
  reducing_ = false;
}

void Unit::restore_published() {
  for (const auto& flat : flats_) flat->gradient().restore_published();
}

void Unit::drop_unmarked() {
  for (const auto& flat : flats_) flat->gradient().drop_unmarked();
}

void Unit::wait_for_readers() {
  for (const auto& flat : flats_) flat->wait_for_readers();
}

const char* name_of(Unit::State state) {
  switch (state) {
    case Unit::State::sharded:
      return "sharded";
    case Unit::State::gathering:
      return "gathering";
    case Unit::State::unsharded:
      return "unsharded";
    case Unit::State::reducing:
      return "reducing";
  }
  return "?";
}

}  // namespace tessera::dist
