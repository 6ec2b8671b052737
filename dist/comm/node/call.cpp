#include "dist/comm/node/call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "dist/comm/interface/fault_injection.h"
#include "tensor/cpu/combine_sources.h"

namespace tessera::dist::node {
namespace {

using kernels::cpu::Combination;

Combination combination_of(Reduction reduction) {
  constexpr Combination combinations[] = {Combination::sum, Combination::mean, Combination::smallest,
                                          Combination::largest};
  return combinations[static_cast<int>(reduction)];
}

/// Slices of an all_reduce, and pieces, begin at multiples of this many elements.
constexpr int64_t stretch_unit = 64;

int parts_of(CallKind kind, int ranks) {
  return kind == CallKind::reduce_scatter || kind == CallKind::all_to_all ? ranks : 1;
}

}  // namespace

NodeCall::NodeCall(std::shared_ptr<NodeGroup> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header),
      group_(std::move(group)),
      call_(std::move(call)),
      mark_(mark(header().sequence, 0)),
      width_(size_of(header().dtype)),
      parts_(parts_of(header().kind, group_->size())),
      stage_length_(std::max(stage_bytes / (parts_ * width_ * stretch_unit), int64_t{1}) * stretch_unit),
      output_counts_(call_.output_counts.begin(), call_.output_counts.end()),
      input_counts_(call_.input_counts.begin(), call_.input_counts.end()) {}

bool NodeCall::has_input() const {
  const bool is_broadcast = header().kind == CallKind::broadcast;
  return !call_.headers_only && call_.input.defined() && (!is_broadcast || header().root == group_->rank());
}

bool NodeCall::advance() {
  if (!posted_ && !post()) return false;
  compare_headers();
  if (!output_ready_) output_ready_ = advance_pieces();
  if (output_ready_ && !finished_ && compared_ == peers()) {
    run_comm_hook(CommPoint::finished, header());
    slot_of(group_->rank())
        .marks.finished.store(mark_ + static_cast<uint64_t>(pieces_), std::memory_order_release);
    finished_ = true;
    departed_ = 0;
    group_->ring_others();
  }
  if (!finished_ || !all_finished(pieces_)) return false;
  group_->give_slot(header().sequence);
  stage_.reset();  // handles may stay for long
  call_.input = call_.output = Tensor();
  return true;
}

bool NodeCall::all_finished(int64_t pieces) {
  const uint64_t finished = mark_ + static_cast<uint64_t>(pieces);
  while (departed_ < compared_ &&
         slot_of(peer(departed_)).marks.finished.load(std::memory_order_acquire) >= finished)
    ++departed_;
  return departed_ == peers();
}

bool NodeCall::inputs_free() const {
  return !has_input() || own_source_ != Source::direct || departed_ == peers();
}

int NodeCall::missing() const {
  if (compared_ < peers()) return peer(compared_);
  return peer(std::min(output_ready_ ? departed_ : taken_, peers() - 1));
}

bool NodeCall::post() {
  Slot& slot = slot_of(group_->rank());
  if (!group_->take_slot(header().sequence)) return false;
  if (!place_input(slot)) {
    group_->give_slot(header().sequence);
    return false;
  }
  write_header(header(), slot.header);
  slot.header.source = own_source_;
  std::copy(input_counts_.begin(), input_counts_.end(), group_->counts(slot));
  slot.marks.posted.store(mark_, std::memory_order_release);
  posted_ = true;
  group_->ring_others();
  return true;
}

/// Makes the input visible: in the slot, where it is, or its first piece on a stage. False where there is no
/// stage now.
bool NodeCall::place_input(Slot& slot) {
  if (!has_input()) return true;
  const int64_t nbytes = call_.input.nbytes();
  void* const data = call_.input.raw_data();
  if (nbytes <= in_slot_bytes) {
    own_source_ = Source::in_slot;
    if (nbytes > 0) std::memcpy(slot.bytes, data, static_cast<size_t>(nbytes));
    return true;
  }
  if (group_->shared().is_visible(data, nbytes)) {
    own_source_ = Source::direct;
    slot.header.data = group_->shared().reference(data);
    return true;
  }
  stage_ = group_->shared().take_stage(parts_ * stage_length_ * width_);
  if (!stage_) return false;
  own_source_ = Source::staged;
  slot.header.data = group_->shared().reference(stage_.get());
  fill_stage();
  return true;
}

void NodeCall::compare_headers() {
  for (; compared_ < peers(); ++compared_) {
    const Slot& slot = slot_of(peer(compared_));
    if (slot.marks.posted.load(std::memory_order_acquire) < mark_) return;
    group_->compare(header(), peer(compared_), slot.header);
  }
}

/// One piece where all inputs are visible; else as many as a stage has room for. All ranks find the same
/// number: they look at the same slots.
void NodeCall::choose_pieces() {
  pieces_ = 1;
  if (!group_->shared().may_stage()) return;
  for (int r = 0; r < group_->size(); ++r)
    if (slot_of(r).header.source == Source::staged)
      pieces_ = std::max<int64_t>((longest_part() + stage_length_ - 1) / stage_length_, 2);
}

int64_t NodeCall::longest_part() const {
  if (header().kind != CallKind::all_to_all) return part_length(group_->rank());
  int64_t longest = 0;
  for (int r = 0; r < group_->size(); ++r) {
    const int64_t* counts = group_->counts(slot_of(r));
    longest = std::max(longest, *std::max_element(counts, counts + group_->size()));
  }
  return longest;
}

bool NodeCall::advance_pieces() {
  if (pieces_ == 0) {
    if (group_->shared().may_stage() && compared_ < peers()) return false;
    choose_pieces();
  }
  for (;;) {
    if (!stage_piece() || !move_piece()) return false;
    if (piece_ + 1 == pieces_) return true;
    slot_of(group_->rank())
        .marks.finished.store(mark_ + static_cast<uint64_t>(++piece_), std::memory_order_release);
    own_done_ = false;
    taken_ = departed_ = 0;
    group_->ring_others();
  }
}

/// Puts the piece of this rank's input on the stage, once all have read the one before.
bool NodeCall::stage_piece() {
  if (own_source_ != Source::staged) return true;
  Marks& marks = slot_of(group_->rank()).marks;
  const uint64_t posted = mark_ + static_cast<uint64_t>(piece_);
  if (marks.posted.load(std::memory_order_relaxed) >= posted) return true;
  if (!all_finished(piece_)) return false;
  fill_stage();
  marks.posted.store(posted, std::memory_order_release);
  group_->ring_others();
  return true;
}

void NodeCall::fill_stage() {
  for (int part = 0; part < parts_; ++part) {
    const int64_t length = header().kind == CallKind::all_to_all ? input_counts_[static_cast<size_t>(part)]
                                                                 : part_length(group_->rank());
    const Stretch stretch = piece_of(length);
    const char* from = static_cast<const char*>(call_.input.raw_data()) +
                       (part_offset(group_->rank(), part) + stretch.first) * width_;
    kernels::cpu::copy_bytes(static_cast<char*>(stage_.get()) + part * stage_length_ * width_, from,
                             stretch.count * width_);
  }
}

/// Whether the piece of `rank`'s input is there.
bool NodeCall::is_there(int rank) const {
  const Slot& slot = slot_of(rank);
  return slot.header.source != Source::staged ||
         slot.marks.posted.load(std::memory_order_acquire) >= mark_ + static_cast<uint64_t>(piece_);
}

bool NodeCall::move_piece() {
  if (call_.headers_only) return compare_counts();
  switch (header().kind) {
    case CallKind::all_gather:
    case CallKind::all_to_all:
    case CallKind::split:
      return take_parts();
    case CallKind::broadcast:
      return take_broadcast();
    case CallKind::reduce_scatter:
      return reduce_parts();
    case CallKind::all_reduce:
      return all_reduce();
    default:
      return compared_ == peers();
  }
}

// Where things are.

/// The stretch of a part that belongs to this piece. Before the number of pieces is known, as if there were
/// many.
NodeCall::Stretch NodeCall::piece_of(int64_t part_length) const {
  if (pieces_ == 1) return {.first = 0, .count = part_length};
  const int64_t first = std::min(piece_ * stage_length_, part_length);
  return {.first = first, .count = std::min(stage_length_, part_length - first)};
}

/// The slice of this piece of an all_reduce that `rank` sums.
NodeCall::Stretch NodeCall::slice_of(int rank) const {
  const Stretch piece = piece_of(call_.output.numel());
  const int64_t size = group_->size();
  const int64_t length = (piece.count + size * stretch_unit - 1) / (size * stretch_unit) * stretch_unit;
  const int64_t first = std::min(rank * length, piece.count);
  return {.first = piece.first + first, .count = std::min(length, piece.count - first)};
}

/// Elements that this rank reads of `from`'s input, in all pieces.
int64_t NodeCall::part_length(int from) const {
  switch (header().kind) {
    case CallKind::all_to_all:
      return group_->counts(slot_of(from))[group_->rank()];
    case CallKind::reduce_scatter:
      return call_.output.numel();
    default:
      return call_.input.defined() ? call_.input.numel() : 0;
  }
}

/// Where a part begins in `rank`'s whole input.
int64_t NodeCall::part_offset(int rank, int part) const {
  if (header().kind == CallKind::reduce_scatter) return part * call_.output.numel();
  if (header().kind != CallKind::all_to_all) return 0;
  if (rank == group_->rank())
    return std::accumulate(input_counts_.begin(), input_counts_.begin() + part, int64_t{0});
  const int64_t* counts = group_->counts(slot_of(rank));
  return std::accumulate(counts, counts + part, int64_t{0});
}

/// The bytes that element 0 of a part of `rank`'s input has, or would have were it in this piece.
const char* NodeCall::source(int rank, int part) const {
  const Slot& slot = slot_of(rank);
  if (slot.header.source == Source::in_slot) return slot.bytes + part_offset(rank, part) * width_;
  const char* const data = group_->shared().at(group_->member(rank), slot.header.data);
  if (slot.header.source == Source::staged) return data + (part - piece_) * stage_length_ * width_;
  return data + part_offset(rank, part) * width_;
}

// What is done.

/// An all_to_all whose parts do not fit each other is as wrong as another call.
void NodeCall::require_count(int from) const {
  const int64_t length = group_->counts(slot_of(from))[group_->rank()];
  const int64_t expected = output_counts_[static_cast<size_t>(from)];
  if (length != expected)
    group_->mismatch(text("group '", group_->name(), "': in ", header(), " rank ", group_->world_rank(from),
                          " has ", length, " elements for rank ", group_->world_rank(group_->rank()),
                          ", which expects ", expected));
}

/// All of a call whose bytes move otherwise.
bool NodeCall::compare_counts() {
  if (compared_ < peers()) return false;
  for (int i = 0; i < peers() && header().kind == CallKind::all_to_all; ++i) require_count(peer(i));
  return true;
}

/// Copies the piece of what `from` has for this rank to where it belongs in the output.
void NodeCall::take_part(int from) {
  const int64_t length = part_length(from);
  int64_t place = header().kind == CallKind::broadcast ? 0 : from * length;
  int part = 0;
  if (header().kind == CallKind::all_to_all) {
    require_count(from);
    place = std::accumulate(output_counts_.begin(), output_counts_.begin() + from, int64_t{0});
    part = group_->rank();
  }
  const Stretch piece = piece_of(length);
  char* const to = output_at(place + piece.first);
  const bool is_own = from == group_->rank();
  const char* const bytes = is_own ? static_cast<const char*>(call_.input.raw_data()) +
                                         (part_offset(from, part) + piece.first) * width_
                                   : source(from, part) + piece.first * width_;
  if (to != bytes) kernels::cpu::copy_bytes(to, bytes, piece.count * width_);
}

bool NodeCall::take_parts() {
  if (!own_done_) {
    run_comm_hook(CommPoint::serve, header());
    take_part(group_->rank());
    own_done_ = true;
  }
  for (; taken_ < compared_; ++taken_) {
    if (!is_there(peer(taken_))) return false;
    take_part(peer(taken_));
  }
  return taken_ == peers();
}

bool NodeCall::take_broadcast() {
  const int root = header().root;
  if (root == group_->rank()) return true;
  taken_ = (root - group_->rank() - 1 + group_->size()) % group_->size();  // whose part is missing
  if (compared_ <= taken_ || !is_there(root)) return false;
  run_comm_hook(CommPoint::serve, header());
  take_part(root);
  return true;
}

/// Sums a stretch of a part over all ranks.
void NodeCall::reduce(int part, Stretch stretch, char* output) {
  std::vector<const void*>& sources = group_->sources();
  for (int r = 0; r < group_->size(); ++r)
    sources[static_cast<size_t>(r)] = source(r, part) + stretch.first * width_;
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources, output,
                                stretch.count);
}

bool NodeCall::reduce_parts() {
  for (; taken_ < peers(); ++taken_)
    if (taken_ >= compared_ || !is_there(peer(taken_))) return false;
  run_comm_hook(CommPoint::serve, header());
  const Stretch piece = piece_of(call_.output.numel());
  reduce(group_->rank(), piece, output_at(piece.first));
  return true;
}

bool NodeCall::all_reduce() {
  if (compared_ < peers()) return false;
  const uint64_t reduced = mark_ + static_cast<uint64_t>(piece_) + 1;
  if (own_source_ == Source::in_slot) {
    run_comm_hook(CommPoint::serve, header());
    reduce(0, piece_of(call_.output.numel()), output_at(0));
    return true;
  }
  if (!own_done_) {
    for (int r = 0; r < group_->size(); ++r)
      if (!is_there(r)) return false;
    run_comm_hook(CommPoint::serve, header());
    const Stretch slice = slice_of(group_->rank());
    // In place: nobody else reads this slice before it is summed. The others read it where the input is.
    char* const in_place = const_cast<char*>(source(group_->rank(), 0)) + slice.first * width_;
    reduce(0, slice, in_place);
    slot_of(group_->rank()).marks.reduced.store(reduced, std::memory_order_release);
    own_done_ = true;
    group_->ring_others();
    if (in_place != output_at(slice.first))
      kernels::cpu::copy_bytes(output_at(slice.first), in_place, slice.count * width_);
  }
  for (; taken_ < peers(); ++taken_) {
    const int from = peer(taken_);
    if (slot_of(from).marks.reduced.load(std::memory_order_acquire) < reduced) return false;
    const Stretch slice = slice_of(from);
    kernels::cpu::copy_bytes(output_at(slice.first), source(from, 0) + slice.first * width_,
                             slice.count * width_);
  }
  return true;
}

}  // namespace tessera::dist::node
