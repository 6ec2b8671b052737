#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/comm/node/rank.h"

namespace tessera::dist::node {

/// A group as one of its ranks sees it: everybody's slots for calls and messages, in shared memory.
class NodeGroup {
 public:
  /// Bytes of control memory that a group of `size` ranks needs.
  static int64_t control_bytes(int size);
  /// `members` are numbers of ranks on this machine; `control` is that memory, zeros at first. `self` must be
  /// there whenever a call is served.
  NodeGroup(NodeRank& self, std::string name, std::vector<int> members, int rank, char* control);

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// The number of a member on this machine, and in the world.
  int member(int rank) const { return members_[rank]; }
  int world_rank(int rank) const { return shared().world_rank(members_[rank]); }
  NodeRank& self() const { return *self_; }
  NodeShared& shared() const { return self_->shared(); }

  Slot& slot(int rank, uint64_t sequence) const;
  /// The counts that follow a slot.
  int64_t* counts(Slot& slot) const { return reinterpret_cast<int64_t*>(&slot + 1); }
  Outbox& outbox(int rank) const;

  /// Wakes the other members: something that they may wait for has changed.
  void ring_others() const;
  void ring(int rank) const { shared().block(members_[rank]).bell.ring(); }
  bool has_left(int rank) const { return shared().block(members_[rank]).has_left.load() != 0; }

  /// This rank's slot for a call, unless an earlier call still has it.
  bool take_slot(uint64_t sequence);
  void give_slot(uint64_t sequence) { slot_in_use_[sequence % slots_in_flight] = false; }
  /// Number of the next message, from 1.
  uint64_t next_message() { return ++messages_; }
  /// The number of messages to `peer` with `tag` that were posted: the sequence number of the one whose turn
  /// it is.
  uint64_t& posted_messages(int peer, int tag) { return posted_[{peer, tag}]; }

  /// What is posted of a call. Throws MismatchError, and fails the run, unless `peer`'s is the same as `own`.
  void compare(const CallHeader& own, int peer, const PostedHeader& posted, bool is_message = false) const;
  [[noreturn]] void mismatch(const std::string& message) const;

  /// Addresses, one for each rank; for the call that is being served.
  std::vector<const void*>& sources() { return sources_; }

 private:
  NodeRank* self_;
  std::string name_;
  std::vector<int> members_;
  int rank_;
  char* control_;
  int64_t slot_stride_;
  std::vector<bool> slot_in_use_;
  std::vector<const void*> sources_;
  uint64_t messages_ = 0;
  std::map<std::pair<int, int>, uint64_t> posted_;
};

/// `header` as it is posted.
void write_header(const CallHeader& header, PostedHeader& posted);
CallHeader read_header(const PostedHeader& posted);

}  // namespace tessera::dist::node
