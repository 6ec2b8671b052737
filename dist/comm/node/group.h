#pragma once  // internal

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/comm/node/rank.h"
#include "tensor/tensor.h"

namespace tessera::dist::node {

/// A group as one of its ranks sees it: the slots of all its ranks for calls and messages, in shared memory.
class Group {
 public:
  /// Bytes of control memory that a group of `size` ranks needs.
  static int64_t control_bytes(int size);
  /// `members` are indices of ranks on this machine; `control` is that memory, zeros at first. `self` must
  /// exist whenever a call is advanced.
  Group(Rank& self, std::string name, std::vector<int> members, int rank, char* control);

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// A member's index on this machine, and its rank in the world.
  int member(int rank) const { return members_[rank]; }
  int world_rank(int rank) const { return shared().world_rank(members_[rank]); }
  Rank& self() const { return *self_; }
  SharedMemory& shared() const { return self_->shared(); }

  Slot& slot(int rank, uint64_t sequence) const;
  /// The numbers that follow a slot, one for each rank: the counts of an all_to_all; of other calls the first
  /// is the stride of the input (RankRanges).
  int64_t* counts(Slot& slot) const { return reinterpret_cast<int64_t*>(&slot + 1); }
  SendQueue& send_queue(int rank) const;

  /// Signals the events of the other members: something that they may wait for has changed.
  void signal_others() const;
  void signal(int rank) const { shared().block(members_[rank]).event.signal(); }
  bool has_exited(int rank) const { return shared().block(members_[rank]).has_exited.load() != 0; }

  /// Acquires this rank's slot for a call. False while an earlier call uses it.
  bool acquire_slot(uint64_t sequence);
  void release_slot(uint64_t sequence) { slot_in_use_[sequence % slots_in_flight] = false; }
  /// Number of the next message, from 1.
  uint64_t next_message() { return ++messages_; }
  /// The number of messages to `peer` with `tag` that were posted: the sequence number of the next one.
  uint64_t& posted_messages(int peer, int tag) { return posted_[{peer, tag}]; }
  /// The same of the messages from `peer` with `tag` that were found by a receive.
  uint64_t& found_messages(int peer, int tag) { return found_[{peer, tag}]; }

  /// Makes an input visible to the others and enters in `call` where: in `in_slot` (without what may lie
  /// between its rows), where it lies, or in a
  /// staging buffer of `staged` bytes, which the caller fills. False where there is no staging buffer now.
  bool place(const Tensor& input, int64_t staged, PostedCall& call, char* in_slot,
             std::shared_ptr<void>& staging) const;
  /// Compares the posted header of `peer` with `own`. Where they differ: fails the run, throws MismatchError.
  void compare(const CallHeader& own, int peer, const PostedHeader& posted) const;
  [[noreturn]] void mismatch(const std::string& message) const;

  /// Scratch memory of the call that is being advanced: an address for each rank.
  std::vector<const void*>& sources() { return sources_; }

 private:
  Rank* self_;
  std::string name_;
  std::vector<int> members_;
  int rank_;
  char* control_;
  int64_t slot_stride_;
  std::vector<bool> slot_in_use_;
  std::vector<const void*> sources_;
  uint64_t messages_ = 0;
  std::map<std::pair<int, int>, uint64_t> posted_;
  std::map<std::pair<int, int>, uint64_t> found_;
};

}  // namespace tessera::dist::node
