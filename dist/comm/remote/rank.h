#pragma once  // internal

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dist/comm/process/process_ranks.h"
#include "dist/comm/process/transports.h"
#include "dist/comm/remote/thread.h"
#include "dist/comm/wait/rank_progress.h"

namespace tessera::dist::remote {

/// A process as a rank of its job, in one launch: what all its communicators share. Destroyed with the last
/// of them; the destructor first does what other ranks still need of this one.
class Rank {
 public:
  /// All ranks of the job construct it, in launches of the same number. Throws ConfigError where shared
  /// memory is required and there is none.
  Rank(Thread& thread, uint64_t launch, const Deadlines& deadlines, Transport transport);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return thread_.rank(); }
  int size() const { return thread_.size(); }
  /// The ranks of this machine, in order, and this one's index among them: those whose processes see each
  /// other (ProcessPlace), whatever their host names.
  const std::vector<int>& local_ranks() const { return local_ranks_; }
  int local_index() const { return local_index_; }
  /// The number of ranks, with this one, that may run on cores on which this one may run.
  int ranks_on_cores() const { return ranks_on_cores_; }

  Thread& thread() const { return thread_; }
  RankProgress& progress() { return *progress_; }
  /// PublishesActivity
  void publish_activity(std::string_view what) { block_->activity.set(activity_text(what)); }
  const std::shared_ptr<WaitWord>& event() const { return event_; }
  /// This rank among those of its machine that share memory; null where they do not.
  node::Rank* node() const { return node_.get(); }
  /// Why they do not; empty where they do, or where it was not tried.
  const std::string& no_shared_memory_reason() const { return no_shared_memory_reason_; }

  /// A new id for a group whose first rank is this one.
  uint64_t open_group() { return group_id(launch_, rank(), ++opened_); }
  /// The id of the group of all ranks.
  uint64_t world_group() const { return group_id(launch_, 0, 0); }

  /// Sends all ranks the reason why this one ends, or the failure that it received from another one before.
  /// Calls in flight are not waited for any more.
  void fail(std::exception_ptr reason);
  /// The body of the launch has ended, while communicators may still be kept.
  void end_body() { watch_->end_body(); }

  /// Each of `members` gives the same number of bytes and gets those of all, in the order of `members`. For
  /// the time before there are communicators; waits for all.
  std::string all_gather(std::span<const int> members, const std::string& bytes);

 private:
  void make_block(Transport transport);
  void begin();
  std::vector<RankPlace> gather_places();
  void join_machine(Transport transport);
  std::shared_ptr<Exchange> make_exchange(std::span<const int> members, const std::string& bytes,
                                          const Tensor& output);

  Thread& thread_;
  uint64_t launch_;
  Deadlines deadlines_;
  std::shared_ptr<SharedArena> arena_;
  std::shared_ptr<node::RankBlock> block_;  ///< in the arena, where there is one
  std::shared_ptr<WaitWord> event_;         ///< of the block
  std::string no_shared_memory_reason_;
  std::shared_ptr<JobWatch> watch_;
  std::vector<int> local_ranks_;
  int local_index_ = 0, ranks_on_cores_ = 0;
  std::shared_ptr<node::SharedMemory> shared_;
  std::unique_ptr<RankProgress> progress_;
  std::unique_ptr<node::Rank> node_;
  uint64_t opened_ = 0, gathered_ = 0;
  bool failed_ = false;
};

/// The all_gather of these ranks, for the time before there are communicators.
class RankBootstrap final : public Bootstrap {
 public:
  /// `members` are ranks of the world, in order; `self` is one of them.
  RankBootstrap(Rank& self, std::vector<int> members)
      : self_(self),
        members_(std::move(members)),
        rank_(static_cast<int>(std::find(members_.begin(), members_.end(), self.rank()) - members_.begin())) {
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string all_gather(const std::string& bytes) override { return self_.all_gather(members_, bytes); }

 private:
  Rank& self_;
  std::vector<int> members_;
  int rank_;
};

}  // namespace tessera::dist::remote
