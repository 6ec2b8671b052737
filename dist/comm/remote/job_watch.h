#pragma once  // internal

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dist/comm/remote/frame.h"
#include "dist/comm/wait/run_failure.h"
#include "dist/comm/wait/stall_watch.h"

namespace tessera::dist::remote {

/// When a rank of a job counts as lost.
struct Deadlines {
  std::chrono::milliseconds heartbeat_timeout{30'000};  ///< no heartbeat from it
  std::chrono::milliseconds timeout{300'000};  ///< running, but its count of operations does not change
};

/// The time between two heartbeats of a rank that others watch with these deadlines.
std::chrono::milliseconds between_heartbeats(const Deadlines& deadlines);

/// Where a rank of a job runs.
struct RankPlace {
  std::string host;
  ProcessPlace process;
};

/// The state of the other ranks of a job, as one rank sees it. The end of a process on the same host is
/// detected at once, of any other by missing heartbeats. The remote thread reports the frames that arrive;
/// the rank's thread calls `check` while it waits.
///
/// A rank that is running is lost once it is stuck (StallDetector), by the reports in its heartbeats.
class JobWatch final : public PeerWatch {
 public:
  JobWatch(int rank, int ranks, const Deadlines& deadlines);
  ~JobWatch() override;
  /// Where all ranks run, once that is known.
  void set_places(const std::vector<RankPlace>& places);
  /// How the newest activity of a rank of this machine is read, also after its end; nothing for others, of
  /// which the last heartbeat has it.
  void set_activity_source(std::function<std::optional<ActivityText>(int rank)> source);
  /// Where a rank runs. From then on the end of its process is detected, where it is visible from this one.
  void set_process(int rank, const ProcessPlace& process);

  void check(int rank, const CallHeader& call) override;
  void end_wait() override;
  /// Throws the failure where the run has failed (`throw_failure`).
  void throw_if_failed() const {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_failure(failure());
  }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// "all_gather #5 ..." while this rank waits for it; for heartbeats.
  std::string waiting_in() const;

  // For the remote thread.
  /// A frame came from `rank`.
  void record_frame(int rank);
  void record_heartbeat(int rank, const RankReport& report, std::string waiting_in);
  /// The program of `rank` ends without failing. The rank is lost if the run continues for longer than its
  /// last frames may take.
  void record_leave(int rank);
  /// `rank` is no longer watched.
  void stop_watching(int rank);
  /// The run has failed. The first failure counts.
  void fail(const RunFailure& failure);
  /// Searches for processes that have ended and ranks that send no heartbeat. True when this call found one.
  bool find_lost();
  /// The body of the launch has ended here: other ranks may leave, and this one may work without a deadline.
  void end_body();
  /// Whether a rank was lost before that.
  bool lost_a_rank() const;
  /// The time since a failure while this rank has not returned from the body; 0 without a failure.
  std::chrono::milliseconds time_since_failure() const;
  /// The first failure, once there is one.
  RunFailure failure() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    RankPlace place;
    int process = -1;  ///< a descriptor of it; -1: none
    Clock::time_point last_frame, ended_since;
    bool has_ended = false, has_exited = false, is_ignored = false;
    RankReport report;
    std::string waiting_in;
  };
  void record_failure(RunFailure::Kind kind, int rank, const std::string& message);
  void record_stuck(int rank, int waited_for, const CallHeader& call);
  void record_end(Peer& peer, bool has_exited);
  void open(Peer& peer);
  void check_peer(int rank);
  std::string heartbeat_text(const Peer& peer) const;
  std::string rank_text(int rank) const;
  std::string missed_text() const;
  std::string activity_of(int rank) const;

  int rank_;
  Deadlines deadlines_;
  const ProcessPlace own_ = this_process();
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  StallDetector stalls_;
  std::function<std::optional<ActivityText>(int rank)> activity_source_;
  Clock::time_point last_search_, thread_seen_, failed_at_;
  bool body_has_ended_ = false, failed_in_body_ = false;
  std::string waiting_in_;
  std::atomic<bool> failed_{false};
  RunFailure failure_;
};

}  // namespace tessera::dist::remote
