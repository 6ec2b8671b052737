#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/message_thread.h"
#include "dist/comm/node_layout.h"
#include "dist/comm/rank_progress.h"

namespace tessera::dist {

/// A process as a rank of its job, in one launch: what all its communicators that send messages share. Goes
/// with the last of them, after what other ranks still need of it.
class MessageRank {
 public:
  /// All ranks of the job make it, in launches of the same number.
  MessageRank(MessageThread& thread, uint64_t launch, const Deadlines& deadlines);
  ~MessageRank();
  MessageRank(const MessageRank&) = delete;
  MessageRank& operator=(const MessageRank&) = delete;

  int rank() const { return thread_.rank(); }
  int size() const { return thread_.size(); }
  const std::vector<RankPlace>& places() const { return places_; }
  /// The ranks of this machine, in order.
  std::vector<int> local_ranks() const;

  MessageThread& thread() const { return thread_; }
  RankProgress& progress() { return progress_; }
  const std::shared_ptr<Bell>& bell() const { return bell_; }
  JobWatch& watch() const { return *watch_; }
  /// A number for a group that this rank is the first of.
  uint64_t open_group() { return group_id(launch_, rank(), ++opened_); }
  /// The group of all.
  uint64_t world_group() const { return group_id(launch_, 0, 0); }

  /// Tells all ranks why the run fails and which of them is to blame, or what this one was told of that
  /// before. Calls in flight are not waited for any more.
  void fail(RunFailure failure, int to_blame, const std::string& why);

  /// Each of `members` gives as many bytes as the others and gets those of all, in the order of `members`.
  /// For what comes before there are communicators; waits for all.
  std::string all_gather(std::span<const int> members, const std::string& bytes);

 private:
  void gather_places();

  MessageThread& thread_;
  uint64_t launch_;
  Deadlines deadlines_;
  std::shared_ptr<node::RankBlock> block_;
  std::shared_ptr<Bell> bell_;
  std::vector<RankPlace> places_;
  std::shared_ptr<JobWatch> watch_;
  RankProgress progress_;
  uint64_t opened_ = 0, gathered_ = 0;
  bool failed_ = false;
};

}  // namespace tessera::dist
