#pragma once  // internal

#include <cstdint>
#include <vector>

#include "dist/comm/interface/communicator.h"
#include "dist/fsdp/messages.h"

namespace tessera::dist {

/// The calls of one array's messages, in flight.
class MessageCalls {
 public:
  /// Adds one.
  void add(Work call) { calls_.push_back(std::move(call)); }
  /// `Work::wait` of all. There are none afterwards.
  void wait();
  /// `Work::wait_output` of all.
  void wait_output() const;
  /// `Work::is_done` of all.
  bool is_done() const;

 private:
  std::vector<Work> calls_;
};

/// How an array of equal shards is gathered.
struct GatherWay {
  int64_t limit = MessageOptions::unlimited;  ///< elements of a message
  bool broadcasts = false;                    ///< one from each rank, or more; else all_gathers
};

/// The gathering of an array of equal shards, one for each rank of a group. It may be started in parts.
class Gather {
 public:
  /// One that is complete.
  Gather() = default;
  /// Into `all`. This rank's shard is `own`, which may be that of `all`. The group and what `call` refers to
  /// must outlive it.
  Gather(Communicator& group, const Tensor& all, const Tensor& own, GatherWay way, const CallOptions& call);

  /// Starts the next messages, of at most `most` elements in all. Returns their elements.
  int64_t start(int64_t most = MessageOptions::unlimited);
  /// Whether all messages were started.
  bool is_started() const { return position_ == end_; }
  /// `MessageCalls` of those that were started.
  /// @{
  void wait() { calls_.wait(); }
  void wait_output() const { calls_.wait_output(); }
  /// @}

 private:
  void start_message(int64_t numel);

  Communicator* group_ = nullptr;
  Tensor all_, own_;
  GatherWay way_;
  CallOptions call_;
  int64_t position_ = 0, end_ = 0;  // elements of a shard; by broadcasts of the array
  MessageCalls calls_;
};

/// Shard `rank` of an array of `ranks` equal shards: a view.
Tensor shard_of(const Tensor& all, int rank, int ranks);

/// Starts to average `all` over the ranks, in place.
MessageCalls start_average(Communicator& group, const Tensor& all, int64_t limit, const CallOptions& call);
/// Starts to average this rank's shard of `all` into `output`.
MessageCalls start_average_shard(Communicator& group, const Tensor& output, const Tensor& all, int64_t limit,
                                 const CallOptions& call);

}  // namespace tessera::dist
