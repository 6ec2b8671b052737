#include "dist/comm/node/group.h"

#include <cstring>

namespace tessera::dist::node {
namespace {

int64_t stride_of_slot(int size) {
  const int64_t bytes = static_cast<int64_t>(sizeof(Slot)) + size * static_cast<int64_t>(sizeof(int64_t));
  return (bytes + 63) / 64 * 64;
}

}  // namespace

int64_t Group::control_bytes(int size) {
  return size * (slots_in_flight * stride_of_slot(size) + static_cast<int64_t>(sizeof(SendQueue)));
}

Group::Group(Rank& self, std::string name, std::vector<int> members, int rank, char* control)
    : self_(&self),
      name_(std::move(name)),
      members_(std::move(members)),
      rank_(rank),
      control_(control),
      slot_stride_(stride_of_slot(size())),
      slot_in_use_(slots_in_flight),
      sources_(members_.size()) {}

Slot& Group::slot(int rank, uint64_t sequence) const {
  const int64_t index =
      static_cast<int64_t>(rank) * slots_in_flight + static_cast<int64_t>(sequence % slots_in_flight);
  return *reinterpret_cast<Slot*>(control_ + index * slot_stride_);
}

SendQueue& Group::send_queue(int rank) const {
  char* const queues = control_ + size() * slots_in_flight * slot_stride_;
  return reinterpret_cast<SendQueue*>(queues)[rank];
}

void Group::signal_others() const {
  for (int r = 0; r < size(); ++r)
    if (r != rank_) signal(r);
}

bool Group::acquire_slot(uint64_t sequence) {
  const size_t index = sequence % slots_in_flight;
  if (slot_in_use_[index]) return false;
  slot_in_use_[index] = true;
  return true;
}

bool Group::place(const Tensor& input, int64_t staged, PostedCall& call, char* in_slot,
                  std::shared_ptr<void>& staging) const {
  const int64_t nbytes = input.nbytes();
  void* const data = input.raw_data();
  const bool is_apart = !input.is_contiguous();  // rows, one for each rank
  const int64_t row_bytes = is_apart ? nbytes / size() : nbytes;
  const int64_t stride_bytes = is_apart ? input.strides()[0] * size_of(input.dtype()) : 0;
  if (nbytes <= in_slot_bytes) {
    call.source = Source::in_slot;
    for (int64_t row = 0; row * row_bytes < nbytes; ++row)
      std::memcpy(in_slot + row * row_bytes, static_cast<const char*>(data) + row * stride_bytes,
                  static_cast<size_t>(row_bytes));
    return true;
  }
  if (shared().is_visible(data, (size() - 1) * stride_bytes + row_bytes)) {
    call.source = Source::direct;
    call.data = shared().reference(data);
    return true;
  }
  staging = shared().take_staging_buffer(staged);
  if (!staging) return false;
  call.source = Source::staged;
  call.data = shared().reference(staging.get());
  return true;
}

void Group::compare(const CallHeader& own, int peer, const PostedHeader& posted) const {
  const CallHeader other = decode(posted);
  if (is_same_call(own, other)) return;
  mismatch(mismatch_text(name_, world_rank(rank_), own, world_rank(peer), other));
}

void Group::mismatch(const std::string& message) const {
  shared().fail({.kind = RunFailure::Kind::mismatched, .rank = world_rank(rank_), .message = message});
  throw MismatchError(message);
}

}  // namespace tessera::dist::node
