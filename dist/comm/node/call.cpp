#include "dist/comm/node/call.h"

#include <algorithm>
#include <numeric>

#include "dist/comm/interface/fault_injection.h"
#include "dist/comm/wait/reduce.h"

namespace tessera::dist::node {
namespace {

int shards_of(CallKind kind, int ranks) {
  return kind == CallKind::reduce_scatter || kind == CallKind::all_to_all ? ranks : 1;
}

}  // namespace

NodeCall::NodeCall(std::shared_ptr<NodeGroup> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header),
      group_(std::move(group)),
      call_(std::move(call)),
      mark_(mark(header().sequence, 0)),
      width_(size_of(header().dtype)),
      shards_(shards_of(header().kind, group_->size())),
      staged_length_(std::max(staging_bytes / (shards_ * width_ * range_alignment), int64_t{1}) *
                     range_alignment),
      output_counts_(call_.output_counts.begin(), call_.output_counts.end()),
      input_counts_(call_.input_counts.begin(), call_.input_counts.end()) {}

bool NodeCall::has_input() const {
  const bool is_broadcast = header().kind == CallKind::broadcast;
  return !call_.headers_only && call_.input.defined() && (!is_broadcast || header().root == group_->rank());
}

bool NodeCall::advance() {
  if (!posted_ && !post()) return false;
  compare_headers();
  if (!output_ready_) output_ready_ = advance_chunks();
  if (output_ready_ && !finished_ && compared_peers_ == peers()) {
    run_comm_hook(CommPoint::finished, header());
    slot_of(group_->rank())
        .marks.finished.store(mark_ + static_cast<uint64_t>(chunks_), std::memory_order_release);
    finished_ = true;
    finished_peers_ = 0;
    group_->signal_others();
  }
  if (!finished_ || !all_finished(chunks_)) return false;
  group_->give_slot(header().sequence);
  staging_.reset();  // handles may outlive the call
  call_.input = call_.output = Tensor();
  return true;
}

bool NodeCall::all_finished(int64_t chunks) {
  const uint64_t finished = mark_ + static_cast<uint64_t>(chunks);
  while (finished_peers_ < compared_peers_ &&
         slot_of(peer(finished_peers_)).marks.finished.load(std::memory_order_acquire) >= finished)
    ++finished_peers_;
  return finished_peers_ == peers();
}

bool NodeCall::inputs_free() const {
  return !has_input() || own_source_ != Source::direct || finished_peers_ == peers();
}

int NodeCall::missing() const {
  if (compared_peers_ < peers()) return peer(compared_peers_);
  return peer(std::min(output_ready_ ? finished_peers_ : read_peers_, peers() - 1));
}

bool NodeCall::post() {
  Slot& slot = slot_of(group_->rank());
  if (!group_->take_slot(header().sequence)) return false;
  if (!place_input(slot)) {
    group_->give_slot(header().sequence);
    return false;
  }
  slot.call.header = encode(header());
  slot.call.source = own_source_;
  std::copy(input_counts_.begin(), input_counts_.end(), group_->counts(slot));
  slot.marks.posted.store(mark_, std::memory_order_release);
  posted_ = true;
  group_->signal_others();
  return true;
}

/// Makes the input visible: in the slot, where it lies, or its first chunk in a staging buffer. False where
/// there is no staging buffer now.
bool NodeCall::place_input(Slot& slot) {
  if (!has_input()) return true;
  if (!group_->place(call_.input, shards_ * staged_length_ * width_, slot.call, slot.bytes, staging_))
    return false;
  own_source_ = slot.call.source;
  if (own_source_ == Source::staged) fill_staging_buffer();
  return true;
}

void NodeCall::compare_headers() {
  for (; compared_peers_ < peers(); ++compared_peers_) {
    const Slot& slot = slot_of(peer(compared_peers_));
    if (slot.marks.posted.load(std::memory_order_acquire) < mark_) return;
    group_->compare(header(), peer(compared_peers_), slot.call.header);
  }
}

/// One chunk where all inputs are visible; else as many as the size of a staging buffer requires. All ranks
/// compute the same number, since they read the same slots.
void NodeCall::choose_chunks() {
  chunks_ = 1;
  if (!group_->shared().may_stage()) return;
  for (int r = 0; r < group_->size(); ++r)
    if (slot_of(r).call.source == Source::staged)
      chunks_ = std::max<int64_t>((longest_shard() + staged_length_ - 1) / staged_length_, 2);
}

int64_t NodeCall::longest_shard() const {
  if (header().kind != CallKind::all_to_all) return shard_length(group_->rank());
  int64_t longest = 0;
  for (int r = 0; r < group_->size(); ++r) {
    const int64_t* counts = group_->counts(slot_of(r));
    longest = std::max(longest, *std::max_element(counts, counts + group_->size()));
  }
  return longest;
}

bool NodeCall::advance_chunks() {
  if (chunks_ == 0) {
    if (group_->shared().may_stage() && compared_peers_ < peers()) return false;
    choose_chunks();
  }
  for (;;) {
    if (!stage_chunk() || !move_chunk()) return false;
    if (chunk_ + 1 == chunks_) return true;
    slot_of(group_->rank())
        .marks.finished.store(mark_ + static_cast<uint64_t>(++chunk_), std::memory_order_release);
    own_range_done_ = false;
    read_peers_ = finished_peers_ = 0;
    group_->signal_others();
  }
}

/// Copies the chunk of this rank's input to the staging buffer, once all ranks have read the one before.
bool NodeCall::stage_chunk() {
  if (own_source_ != Source::staged) return true;
  Marks& marks = slot_of(group_->rank()).marks;
  const uint64_t posted = mark_ + static_cast<uint64_t>(chunk_);
  if (marks.posted.load(std::memory_order_relaxed) >= posted) return true;
  if (!all_finished(chunk_)) return false;
  fill_staging_buffer();
  marks.posted.store(posted, std::memory_order_release);
  group_->signal_others();
  return true;
}

void NodeCall::fill_staging_buffer() {
  for (int shard = 0; shard < shards_; ++shard) {
    const int64_t length = header().kind == CallKind::all_to_all ? input_counts_[static_cast<size_t>(shard)]
                                                                 : shard_length(group_->rank());
    const Range range = chunk_of(length);
    const char* from = static_cast<const char*>(call_.input.raw_data()) +
                       (shard_offset(group_->rank(), shard) + range.first) * width_;
    kernels::cpu::copy_bytes(static_cast<char*>(staging_.get()) + shard * staged_length_ * width_, from,
                             range.count * width_);
  }
}

/// Whether the chunk of `rank`'s input is there.
bool NodeCall::chunk_is_there(int rank) const {
  const Slot& slot = slot_of(rank);
  return slot.call.source != Source::staged ||
         slot.marks.posted.load(std::memory_order_acquire) >= mark_ + static_cast<uint64_t>(chunk_);
}

bool NodeCall::move_chunk() {
  if (call_.headers_only) return compare_counts();
  switch (header().kind) {
    case CallKind::all_gather:
    case CallKind::all_to_all:
    case CallKind::split:
      return copy_shards();
    case CallKind::broadcast:
      return copy_broadcast();
    case CallKind::reduce_scatter:
      return reduce_shard();
    case CallKind::all_reduce:
      return all_reduce();
    default:
      return compared_peers_ == peers();
  }
}

// Offsets and lengths.

/// The range of a shard that belongs to this chunk. Before the number of chunks is known, as if there were
/// many.
NodeCall::Range NodeCall::chunk_of(int64_t shard_length) const {
  if (chunks_ == 1) return {.first = 0, .count = shard_length};
  const int64_t first = std::min(chunk_ * staged_length_, shard_length);
  return {.first = first, .count = std::min(staged_length_, shard_length - first)};
}

/// The range of this chunk of an all_reduce that `rank` sums.
NodeCall::Range NodeCall::reduced_range(int rank) const {
  const Range chunk = chunk_of(call_.output.numel());
  Range range = summed_range(chunk.count, group_->size(), rank);
  range.first += chunk.first;
  return range;
}

/// Elements that this rank reads of `from`'s input, in all chunks.
int64_t NodeCall::shard_length(int from) const {
  switch (header().kind) {
    case CallKind::all_to_all:
      return group_->counts(slot_of(from))[group_->rank()];
    case CallKind::reduce_scatter:
      return call_.output.numel();
    default:
      return call_.input.defined() ? call_.input.numel() : 0;
  }
}

/// Where a shard begins in the input of `rank`.
int64_t NodeCall::shard_offset(int rank, int shard) const {
  if (header().kind == CallKind::reduce_scatter) return shard * call_.output.numel();
  if (header().kind != CallKind::all_to_all) return 0;
  if (rank == group_->rank())
    return std::accumulate(input_counts_.begin(), input_counts_.begin() + shard, int64_t{0});
  const int64_t* counts = group_->counts(slot_of(rank));
  return std::accumulate(counts, counts + shard, int64_t{0});
}

/// The address of element 0 of a shard of `rank`'s input; of a staged one, where it would be if it were in
/// this chunk.
const char* NodeCall::source(int rank, int shard) const {
  const Slot& slot = slot_of(rank);
  if (slot.call.source == Source::in_slot) return slot.bytes + shard_offset(rank, shard) * width_;
  const char* const data = group_->shared().at(group_->member(rank), slot.call.data);
  if (slot.call.source == Source::staged) return data + (shard - chunk_) * staged_length_ * width_;
  return data + shard_offset(rank, shard) * width_;
}

// Checks, copies and sums.

/// Counts of an all_to_all that disagree are a mismatch, as another call would be.
void NodeCall::require_count(int from) const {
  const int64_t length = group_->counts(slot_of(from))[group_->rank()];
  const int64_t expected = output_counts_[static_cast<size_t>(from)];
  if (length != expected)
    group_->mismatch(count_mismatch_text(group_->name(), header(), group_->world_rank(from), length,
                                         group_->world_rank(group_->rank()), expected));
}

/// The work of a call with headers_only.
bool NodeCall::compare_counts() {
  if (compared_peers_ < peers()) return false;
  for (int i = 0; i < peers() && header().kind == CallKind::all_to_all; ++i) require_count(peer(i));
  return true;
}

/// Copies the chunk of `from`'s shard for this rank to its place in the output.
void NodeCall::copy_shard(int from) {
  const int64_t length = shard_length(from);
  int64_t place = header().kind == CallKind::broadcast ? 0 : from * length;
  int shard = 0;
  if (header().kind == CallKind::all_to_all) {
    require_count(from);
    place = std::accumulate(output_counts_.begin(), output_counts_.begin() + from, int64_t{0});
    shard = group_->rank();
  }
  const Range chunk = chunk_of(length);
  char* const to = output_at(place + chunk.first);
  const bool is_own = from == group_->rank();
  const char* const bytes = is_own ? static_cast<const char*>(call_.input.raw_data()) +
                                         (shard_offset(from, shard) + chunk.first) * width_
                                   : source(from, shard) + chunk.first * width_;
  if (to != bytes) kernels::cpu::copy_bytes(to, bytes, chunk.count * width_);
}

bool NodeCall::copy_shards() {
  if (!own_range_done_) {
    run_comm_hook(CommPoint::serve, header());
    copy_shard(group_->rank());
    own_range_done_ = true;
  }
  for (; read_peers_ < compared_peers_; ++read_peers_) {
    if (!chunk_is_there(peer(read_peers_))) return false;
    copy_shard(peer(read_peers_));
  }
  return read_peers_ == peers();
}

bool NodeCall::copy_broadcast() {
  const int root = header().root;
  if (root == group_->rank()) return true;
  read_peers_ = (root - group_->rank() - 1 + group_->size()) % group_->size();  // the peer that is missing
  if (compared_peers_ <= read_peers_ || !chunk_is_there(root)) return false;
  run_comm_hook(CommPoint::serve, header());
  copy_shard(root);
  return true;
}

/// Reduces a range of a shard over all ranks.
void NodeCall::reduce(int shard, Range range, char* output) {
  std::vector<const void*>& sources = group_->sources();
  for (int r = 0; r < group_->size(); ++r)
    sources[static_cast<size_t>(r)] = source(r, shard) + range.first * width_;
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources, output,
                                range.count);
}

bool NodeCall::reduce_shard() {
  for (; read_peers_ < peers(); ++read_peers_)
    if (read_peers_ >= compared_peers_ || !chunk_is_there(peer(read_peers_))) return false;
  run_comm_hook(CommPoint::serve, header());
  const Range chunk = chunk_of(call_.output.numel());
  reduce(group_->rank(), chunk, output_at(chunk.first));
  return true;
}

bool NodeCall::all_reduce() {
  if (compared_peers_ < peers()) return false;
  const uint64_t reduced = mark_ + static_cast<uint64_t>(chunk_) + 1;
  if (own_source_ == Source::in_slot) {
    run_comm_hook(CommPoint::serve, header());
    reduce(0, chunk_of(call_.output.numel()), output_at(0));
    return true;
  }
  if (!own_range_done_) {
    for (int r = 0; r < group_->size(); ++r)
      if (!chunk_is_there(r)) return false;
    run_comm_hook(CommPoint::serve, header());
    const Range range = reduced_range(group_->rank());
    // In place: the other ranks read this range only after it is summed, and read it from the input.
    char* const in_place = const_cast<char*>(source(group_->rank(), 0)) + range.first * width_;
    reduce(0, range, in_place);
    slot_of(group_->rank()).marks.reduced.store(reduced, std::memory_order_release);
    own_range_done_ = true;
    group_->signal_others();
    if (in_place != output_at(range.first))
      kernels::cpu::copy_bytes(output_at(range.first), in_place, range.count * width_);
  }
  for (; read_peers_ < peers(); ++read_peers_) {
    const int from = peer(read_peers_);
    if (slot_of(from).marks.reduced.load(std::memory_order_acquire) < reduced) return false;
    const Range range = reduced_range(from);
    kernels::cpu::copy_bytes(output_at(range.first), source(from, 0) + range.first * width_,
                             range.count * width_);
  }
  return true;
}

}  // namespace tessera::dist::node
