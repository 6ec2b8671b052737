#include "dist/comm/node_call.h"

#include <algorithm>
#include <cstring>

#include "dist/comm/fault_injection.h"
#include "tensor/cpu/combine_sources.h"

namespace tessera::dist::node {
namespace {

using kernels::cpu::Combination;

Combination combination_of(Reduction reduction) {
  constexpr Combination combinations[] = {Combination::sum, Combination::mean, Combination::smallest,
                                          Combination::largest};
  return combinations[static_cast<int>(reduction)];
}

/// Slices of an all_reduce begin at multiples of this many elements.
constexpr int64_t slice_unit = 64;

}  // namespace

NodeCall::NodeCall(std::shared_ptr<NodeGroup> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header),
      group_(std::move(group)),
      call_(std::move(call)),
      mark_(mark(header().sequence, 0)),
      output_counts_(call_.output_counts.begin(), call_.output_counts.end()) {
  // The counts go into the slot, which may not be free yet; a copy waits here.
  if (!call_.input_counts.empty())
    output_counts_.insert(output_counts_.end(), call_.input_counts.begin(), call_.input_counts.end());
  call_.input_counts = call_.output_counts = {};
}

bool NodeCall::has_input() const {
  const bool is_broadcast = header().kind == CallKind::broadcast;
  return call_.input.defined() && (!is_broadcast || header().root == group_->rank());
}

bool NodeCall::advance() {
  if (!posted_ && !post()) return false;
  compare_headers();
  if (!output_ready_) output_ready_ = move_data();
  if (output_ready_ && !finished_ && compared_ == peers()) finish();
  const uint64_t finished = mark_ + 1;
  while (departed_ < compared_ &&
         group_->slot(peer(departed_), header().sequence).marks.finished.load(std::memory_order_acquire) >=
             finished)
    ++departed_;
  if (!finished_ || departed_ < peers()) return false;
  if (posted_) group_->give_slot(header().sequence);
  return true;
}

bool NodeCall::inputs_free() const {
  return !has_input() || is_small() || departed_ == peers();
}

int NodeCall::missing() const {
  if (compared_ < peers()) return peer(compared_);
  return peer(std::min(output_ready_ ? departed_ : taken_, peers() - 1));
}

bool NodeCall::post() {
  if (!group_->take_slot(header().sequence)) return false;
  Slot& slot = group_->slot(group_->rank(), header().sequence);
  write_header(header(), slot.header);
  const int64_t nbytes = has_input() ? call_.input.nbytes() : 0;
  if (has_input() && nbytes <= in_slot_bytes) {
    posted_source_ = Source::in_slot;
    if (nbytes > 0) std::memcpy(slot.bytes, call_.input.raw_data(), static_cast<size_t>(nbytes));
  } else if (has_input()) {
    posted_source_ = Source::direct;
    slot.header.data = group_->shared().reference(call_.input.raw_data());
  }
  slot.header.source = posted_source_;
  if (!output_counts_.empty())
    std::copy_n(output_counts_.begin() + group_->size(), group_->size(), group_->counts(slot));
  slot.marks.posted.store(mark_, std::memory_order_release);
  posted_ = true;
  group_->ring_others();
  return true;
}

void NodeCall::compare_headers() {
  for (; compared_ < peers(); ++compared_) {
    const Slot& slot = group_->slot(peer(compared_), header().sequence);
    if (slot.marks.posted.load(std::memory_order_acquire) < mark_) return;
    group_->compare(header(), peer(compared_), slot.header);
  }
}

bool NodeCall::move_data() {
  switch (header().kind) {
    case CallKind::all_gather:
    case CallKind::all_to_all:
    case CallKind::split:
      return take_parts();
    case CallKind::broadcast: {
      const int root = header().root;
      if (root == group_->rank()) return true;
      if (compared_ <= (root - group_->rank() - 1 + group_->size()) % group_->size()) return false;
      run_comm_hook(CommPoint::serve, header());
      take_part(root);
      return true;
    }
    case CallKind::reduce_scatter:
      return reduce_parts();
    case CallKind::all_reduce:
      return all_reduce();
    default:
      return compared_ == peers();
  }
}

void NodeCall::finish() {
  run_comm_hook(CommPoint::finished, header());
  group_->slot(group_->rank(), header().sequence).marks.finished.store(mark_ + 1, std::memory_order_release);
  finished_ = true;
  group_->ring_others();
}

const char* NodeCall::input_of(int rank) const {
  const Slot& slot = group_->slot(rank, header().sequence);
  if (slot.header.source == Source::in_slot) return slot.bytes;
  return group_->shared().at(group_->member(rank), slot.header.data);
}

/// What this rank reads of another one's input.
NodeCall::Part NodeCall::part_from(int rank) const {
  if (header().kind != CallKind::all_to_all) return {.first = 0, .count = call_.input.numel()};
  const int64_t* counts = group_->counts(group_->slot(rank, header().sequence));
  int64_t first = 0;
  for (int r = 0; r < group_->rank(); ++r) first += counts[r];
  return {.first = first, .count = counts[group_->rank()]};
}

/// Copies what `from` has for this rank to where it belongs in the output.
void NodeCall::take_part(int from) {
  const Part part = part_from(from);
  const int64_t width = size_of(header().dtype);
  int64_t place = header().kind == CallKind::broadcast ? 0 : from * part.count;
  if (header().kind == CallKind::all_to_all) {
    const int64_t expected = output_counts_[from];
    if (part.count != expected)
      group_->mismatch(text("group '", group_->name(), "': in ", header(), " rank ", group_->world_rank(from),
                            " has ", part.count, " elements for rank ", group_->world_rank(group_->rank()),
                            ", which expects ", expected));
    place = 0;
    for (int r = 0; r < from; ++r) place += output_counts_[r];
  }
  char* const to = static_cast<char*>(call_.output.raw_data()) + place * width;
  const char* const source = input_of(from) + part.first * width;
  if (to != source) kernels::cpu::copy_bytes(to, source, part.count * width);
}

bool NodeCall::take_parts() {
  if (taken_ == 0 && !reduced_) {
    run_comm_hook(CommPoint::serve, header());
    take_part(group_->rank());
    reduced_ = true;
  }
  for (; taken_ < compared_; ++taken_) take_part(peer(taken_));
  return taken_ == peers();
}

void NodeCall::reduce(int64_t first, int64_t count, void* output) {
  std::vector<const void*>& sources = group_->sources();
  const int64_t offset = first * size_of(header().dtype);
  for (int r = 0; r < group_->size(); ++r) sources[r] = input_of(r) + offset;
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources, output, count);
}

bool NodeCall::reduce_parts() {
  if (compared_ < peers()) return false;
  run_comm_hook(CommPoint::serve, header());
  const int64_t count = call_.output.numel();
  reduce(group_->rank() * count, count, call_.output.raw_data());
  return true;
}

NodeCall::Part NodeCall::slice_of(int rank) const {
  const int64_t n = call_.output.numel(), size = group_->size();
  const int64_t length = (n + size * slice_unit - 1) / (size * slice_unit) * slice_unit;
  const int64_t first = std::min(rank * length, n);
  return {.first = first, .count = std::min(length, n - first)};
}

bool NodeCall::all_reduce() {
  if (compared_ < peers()) return false;
  if (is_small()) {
    run_comm_hook(CommPoint::serve, header());
    reduce(0, call_.output.numel(), call_.output.raw_data());
    return true;
  }
  const int64_t width = size_of(header().dtype);
  char* const own = static_cast<char*>(call_.output.raw_data());
  if (!reduced_) {
    run_comm_hook(CommPoint::serve, header());
    const Part slice = slice_of(group_->rank());
    reduce(slice.first, slice.count, own + slice.first * width);
    group_->slot(group_->rank(), header().sequence).marks.reduced.store(mark_ + 1, std::memory_order_release);
    reduced_ = true;
    group_->ring_others();
  }
  for (; taken_ < peers(); ++taken_) {
    const int from = peer(taken_);
    if (group_->slot(from, header().sequence).marks.reduced.load(std::memory_order_acquire) < mark_ + 1)
      return false;
    const Part slice = slice_of(from);
    kernels::cpu::copy_bytes(own + slice.first * width, input_of(from) + slice.first * width,
                             slice.count * width);
  }
  return true;
}

}  // namespace tessera::dist::node
