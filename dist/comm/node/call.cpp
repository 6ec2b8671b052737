#include "dist/comm/node/call.h"

#include <algorithm>

#include "dist/comm/interface/fault_injection.h"
#include "dist/comm/wait/reduce.h"

namespace tessera::dist::node {

Call::Call(std::shared_ptr<Group> group, CheckedCall call)
    : ActiveCall(group->self().progress(), call.header),
      group_(std::move(group)),
      call_(std::move(call)),
      output_counts_(call_.output_counts.begin(), call_.output_counts.end()),
      input_counts_(call_.input_counts.begin(), call_.input_counts.end()),
      mark_(mark(header().sequence, 0)),
      width_(size_of(header().dtype)) {
  call_.output_counts = output_counts_;
  call_.input_counts = input_counts_;
  plan_ = plan_of(call_, group_->rank(), group_->size(), in_slot_bytes);
  // Of an all_reduce the full tensor is one range: its chunks are cut into ranges for the ranks
  // (begin_chunk).
  if (plan_.phases.size() == 1 && plan_.phases[0].sent == MovedRange::of_receiver)
    staged_ranges_ = group_->size();
  staged_length_ =
      std::max(staging_bytes / (staged_ranges_ * width_ * range_alignment), int64_t{1}) * range_alignment;
}

bool Call::has_input() const {
  return !call_.headers_only && call_.input.defined() && plan_.sends();
}

bool Call::advance() {
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
  group_->release_slot(header().sequence);
  staging_.reset();  // handles may outlive the call
  call_.input = call_.output = Tensor();
  return true;
}

bool Call::all_finished(int64_t chunks) {
  const uint64_t finished = mark_ + static_cast<uint64_t>(chunks);
  while (finished_peers_ < compared_peers_ &&
         slot_of(peer(finished_peers_)).marks.finished.load(std::memory_order_acquire) >= finished)
    ++finished_peers_;
  return finished_peers_ == peers();
}

bool Call::inputs_released() const {
  return !has_input() || own_source_ != Source::direct || finished_peers_ == peers();
}

int Call::missing() const {
  if (compared_peers_ < peers()) return peer(compared_peers_);
  return peer(std::min(output_ready_ ? finished_peers_ : read_peers_, peers() - 1));
}

bool Call::post() {
  Slot& slot = slot_of(group_->rank());
  if (!group_->acquire_slot(header().sequence)) return false;
  if (!place_input(slot)) {
    group_->release_slot(header().sequence);
    return false;
  }
  slot.call.header = encode(header());
  slot.call.source = own_source_;
  std::copy(input_counts_.begin(), input_counts_.end(), group_->counts(slot));
  if (input_counts_.empty()) *group_->counts(slot) = own_source_ == Source::in_slot ? 0 : plan_.input.stride;
  slot.marks.posted.store(mark_, std::memory_order_release);
  posted_ = true;
  group_->signal_others();
  return true;
}

/// Makes the input visible: in the slot, where it lies, or its first chunk in a staging buffer. False where
/// there is no staging buffer now.
bool Call::place_input(Slot& slot) {
  if (!has_input()) return true;
  if (!group_->place(call_.input, staged_ranges_ * staged_length_ * width_, slot.call, slot.bytes, staging_))
    return false;
  own_source_ = slot.call.source;
  if (own_source_ == Source::staged) fill_staging_buffer();
  return true;
}

void Call::compare_headers() {
  for (; compared_peers_ < peers(); ++compared_peers_) {
    const Slot& slot = slot_of(peer(compared_peers_));
    if (slot.marks.posted.load(std::memory_order_acquire) < mark_) return;
    group_->compare(header(), peer(compared_peers_), slot.call.header);
  }
}

/// One chunk where all inputs are visible; else as many as the size of a staging buffer requires. All ranks
/// compute the same number, since they read the same slots.
void Call::choose_chunks() {
  chunks_ = 1;
  for (int r = 0; r < group_->size() && group_->shared().may_stage(); ++r)
    if (slot_of(r).call.source == Source::staged)
      chunks_ = std::max<int64_t>((longest_staged_range() + staged_length_ - 1) / staged_length_, 2);
  begin_chunk();
}

int64_t Call::longest_staged_range() const {
  if (input_counts_.empty()) return staged_range(0).count;
  int64_t longest = 0;
  for (int r = 0; r < group_->size(); ++r) {
    const int64_t* counts = group_->counts(slot_of(r));
    longest = std::max(longest, *std::max_element(counts, counts + group_->size()));
  }
  return longest;
}

bool Call::advance_chunks() {
  if (chunks_ == 0) {
    if (group_->shared().may_stage() && compared_peers_ < peers()) return false;
    choose_chunks();
  }
  for (;;) {
    if (!stage_chunk() || !move_chunk()) return false;
    if (chunk_ + 1 == chunks_) return true;
    slot_of(group_->rank())
        .marks.finished.store(mark_ + static_cast<uint64_t>(++chunk_), std::memory_order_release);
    begin_chunk();
    finished_peers_ = 0;
    group_->signal_others();
  }
}

/// An all_reduce in chunks is one all_reduce after another: each chunk is cut into a range for each rank.
void Call::begin_chunk() {
  phase_ = read_peers_ = 0;
  has_begun_ = own_placed_ = false;
  if (chunks_ == 1 || plan_.phases.size() == 1) return;
  const ElementRange chunk = chunk_of(staged_range(0));
  plan_.input = plan_.output = aligned_ranges(chunk.count, group_->size());
  chunk_begin_ = chunk.first;
}

/// Copies the chunk of this rank's input to the staging buffer, once all ranks have read the one before.
bool Call::stage_chunk() {
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

void Call::fill_staging_buffer() {
  for (int i = 0; i < staged_ranges_; ++i) {
    const ElementRange range = chunk_of(staged_range(i));
    kernels::cpu::copy_bytes(static_cast<char*>(staging_.get()) + i * staged_length_ * width_,
                             static_cast<const char*>(call_.input.raw_data()) + range.first * width_,
                             range.count * width_);
  }
}

// The plan, executed by reading.

bool Call::move_chunk() {
  if (call_.headers_only || plan_.phases.empty()) return compare_counts();
  for (;;) {
    const bool is_over = plan_.phases[static_cast<size_t>(phase_)].combines ? combine() : place();
    if (!is_over || phase_ + 1 == std::ssize(plan_.phases)) return is_over;
    ++phase_;
    read_peers_ = 0;
    own_placed_ = false;
  }
}

/// The work of a call without data.
bool Call::compare_counts() {
  if (compared_peers_ < peers()) return false;
  for (int i = 0; i < peers() && !input_counts_.empty(); ++i)
    require_count(peer(i), sent_by(peer(i)).count, plan_.received(0, peer(i)).count);
  return true;
}

/// Copies each range as soon as it is there.
bool Call::place() {
  if (!own_placed_ && plan_.receives_from(group_->rank())) copy_from(group_->rank());
  own_placed_ = true;
  for (; read_peers_ < peers(); ++read_peers_) {
    const int from = peer(read_peers_);
    if (!plan_.receives_from(from)) continue;
    if (read_peers_ >= compared_peers_ || !is_there(from)) return false;
    copy_from(from);
  }
  return true;
}

bool Call::combine() {
  for (; read_peers_ < peers(); ++read_peers_)
    if (read_peers_ >= compared_peers_ || !is_there(peer(read_peers_))) return false;
  begin_work();
  std::vector<const void*>& sources = group_->sources();
  for (int r = 0; r < group_->size(); ++r) sources[static_cast<size_t>(r)] = source(r, sent_by(r));
  const int rank = group_->rank();
  const ElementRange range = in_tensor(plan_.received(phase_, rank));
  const bool is_last = phase_ + 1 == std::ssize(plan_.phases);
  // Before another phase in place: the others read this range only then, and read it from the input.
  void* const output =
      is_last ? output_at(range.first) : const_cast<void*>(sources[static_cast<size_t>(rank)]);
  kernels::cpu::combine_sources(header().dtype, combination_of(header().reduction), sources, output,
                                range.count);
  if (is_last) return true;
  slot_of(rank).marks.reduced.store(mark_ + static_cast<uint64_t>(chunk_) + 1, std::memory_order_release);
  group_->signal_others();
  return true;
}

/// Whether what `rank` sends in this phase of the chunk is there.
bool Call::is_there(int rank) const {
  const Slot& slot = slot_of(rank);
  const uint64_t posted = mark_ + static_cast<uint64_t>(chunk_);
  if (phase_ > 0) return slot.marks.reduced.load(std::memory_order_acquire) >= posted + 1;
  return slot.call.source != Source::staged || slot.marks.posted.load(std::memory_order_acquire) >= posted;
}

void Call::begin_work() {
  if (!has_begun_) run_comm_hook(CommPoint::work, header());
  has_begun_ = true;
}

void Call::copy_from(int rank) {
  begin_work();
  const ElementRange sent = sent_by(rank), received = plan_.received(phase_, rank);
  require_count(rank, sent.count, received.count);
  // This rank's own input is read where it lies: in place there is nothing to copy.
  const bool is_own_input = phase_ == 0 && rank == group_->rank();
  const char* const from =
      is_own_input ? static_cast<const char*>(call_.input.raw_data()) + in_tensor(sent).first * width_
                   : source(rank, sent);
  const ElementRange range = in_tensor(received);
  char* const to = output_at(range.first);
  if (to != from) kernels::cpu::copy_bytes(to, from, range.count * width_);
}

/// Counts of an all_to_all that disagree are a mismatch, as another call would be.
void Call::require_count(int from, int64_t sent, int64_t expected) const {
  if (sent != expected)
    group_->mismatch(count_mismatch_text(group_->name(), header(), group_->world_rank(from), sent,
                                         group_->world_rank(group_->rank()), expected));
}

// Ranges and addresses.

/// The ranges of this rank's input that are staged, each by chunks.
ElementRange Call::staged_range(int index) const {
  if (staged_ranges_ == 1) return {.first = 0, .count = call_.input.numel()};
  return plan_.sent(0, index);
}

/// The chunk of a range that is staged. Before the number of chunks is known, as if there were many.
ElementRange Call::chunk_of(const ElementRange& range) const {
  if (chunks_ == 1) return range;
  const int64_t first = std::min(chunk_ * staged_length_, range.count);
  return {.first = range.first + first, .count = std::min(staged_length_, range.count - first)};
}

/// What of a range of the plan moves in this chunk, as a range of the tensor.
ElementRange Call::in_tensor(const ElementRange& range) const {
  if (plan_.phases.size() == 1) return chunk_of(range);
  return {.first = chunk_begin_ + range.first, .count = range.count};
}

/// What `rank` sends to this rank, by the plan of that rank: of an all_to_all it has counts of its own, of a
/// reduce_scatter a stride.
ElementRange Call::sent_by(int rank) const {
  RankRanges ranges = plan_.source(phase_);
  if (!ranges.counts.empty())
    ranges.counts = {group_->counts(slot_of(rank)), static_cast<size_t>(group_->size())};
  else if (phase_ == 0)
    ranges.stride = *group_->counts(slot_of(rank));
  return moved_range(plan_.phases[static_cast<size_t>(phase_)].sent, ranges, rank, group_->rank());
}

/// The address of this chunk of it: in its slot, where it lies, or in its staging buffer.
const char* Call::source(int rank, const ElementRange& sent) const {
  const Slot& slot = slot_of(rank);
  const char* const data = slot.call.source == Source::in_slot
                               ? slot.bytes
                               : group_->shared().at(group_->member(rank), slot.call.data);
  if (slot.call.source != Source::staged) return data + in_tensor(sent).first * width_;
  return data + (staged_ranges_ > 1 ? group_->rank() * staged_length_ : sent.first) * width_;
}

}  // namespace tessera::dist::node
