#include "dist/comm/node/group.h"

#include <cstring>

namespace tessera::dist::node {
namespace {

int64_t stride_of_slot(int size) {
  const int64_t bytes = static_cast<int64_t>(sizeof(Slot)) + size * static_cast<int64_t>(sizeof(int64_t));
  return (bytes + 63) / 64 * 64;
}

/// The last characters of a name, as many as fit into a posted header.
std::string_view posted_suffix(const std::string& unit) {
  constexpr size_t room = sizeof(PostedHeader::unit) - 1;
  return std::string_view(unit).substr(unit.size() > room ? unit.size() - room : 0);
}

}  // namespace

int64_t NodeGroup::control_bytes(int size) {
  return size * (slots_in_flight * stride_of_slot(size) + static_cast<int64_t>(sizeof(Outbox)));
}

NodeGroup::NodeGroup(NodeRank& self, std::string name, std::vector<int> members, int rank, char* control)
    : self_(&self),
      name_(std::move(name)),
      members_(std::move(members)),
      rank_(rank),
      control_(control),
      slot_stride_(stride_of_slot(size())),
      slot_in_use_(slots_in_flight),
      sources_(members_.size()) {}

Slot& NodeGroup::slot(int rank, uint64_t sequence) const {
  const int64_t index =
      static_cast<int64_t>(rank) * slots_in_flight + static_cast<int64_t>(sequence % slots_in_flight);
  return *reinterpret_cast<Slot*>(control_ + index * slot_stride_);
}

Outbox& NodeGroup::outbox(int rank) const {
  char* const boxes = control_ + size() * slots_in_flight * slot_stride_;
  return reinterpret_cast<Outbox*>(boxes)[rank];
}

void NodeGroup::signal_others() const {
  for (int r = 0; r < size(); ++r)
    if (r != rank_) signal(r);
}

bool NodeGroup::take_slot(uint64_t sequence) {
  const size_t index = sequence % slots_in_flight;
  if (slot_in_use_[index]) return false;
  slot_in_use_[index] = true;
  return true;
}

void NodeGroup::compare(const CallHeader& own, int peer, const PostedHeader& posted, bool is_message) const {
  CallHeader mine = own, other = read_header(posted);
  mine.unit = posted_suffix(own.unit);
  if (is_message) mine.kind = other.kind;  // a send matches a recv
  if (same_call(mine, other)) return;
  const bool first = rank_ < peer;
  const std::string ours = text("rank ", world_rank(rank_), " calls ", describe_call(own));
  const std::string theirs = text("rank ", world_rank(peer), " calls ", describe_call(other));
  mismatch(text("group '", name_, "': ", first ? ours : theirs, ", ", first ? theirs : ours));
}

void NodeGroup::mismatch(const std::string& message) const {
  shared().fail(FailureRecord::mismatch, world_rank(rank_), message);
  throw MismatchError(message);
}

void write_header(const CallHeader& header, PostedHeader& posted) {
  posted.sequence = header.sequence;
  posted.bytes = header.bytes;
  posted.root = header.root;
  posted.kind = static_cast<uint8_t>(header.kind);
  posted.reduction = static_cast<uint8_t>(header.reduction);
  posted.dtype = static_cast<uint8_t>(header.dtype);
  const std::string_view unit = posted_suffix(header.unit);
  std::memcpy(posted.unit, unit.data(), unit.size());
  posted.unit[unit.size()] = '\0';
}

CallHeader read_header(const PostedHeader& posted) {
  return {.sequence = posted.sequence,
          .bytes = posted.bytes,
          .kind = static_cast<CallKind>(posted.kind),
          .reduction = static_cast<Reduction>(posted.reduction),
          .dtype = static_cast<DType>(posted.dtype),
          .root = posted.root,
          .unit = posted.unit};
}

}  // namespace tessera::dist::node
