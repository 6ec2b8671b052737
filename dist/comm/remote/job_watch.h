#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "dist/comm/remote/frame.h"
#include "dist/comm/wait/peer_watch.h"

namespace tessera::dist {

/// When a rank of a job counts as lost.
struct Deadlines {
  std::chrono::milliseconds silence{30'000};   ///< no heartbeat from it
  std::chrono::milliseconds timeout{300'000};  ///< alive, but its count of operations stands still
};

/// How often a rank that others watch with these deadlines gives a sign of life.
std::chrono::milliseconds between_heartbeats(const Deadlines& deadlines);

/// Where a rank of a job runs.
struct RankPlace {
  std::string host;
  ProcessPlace process;
};

/// What one rank knows of how the others of its job are: processes that end are seen at once where they run
/// on its host, all others by the signs of life that stay away. The message thread tells it what it hears,
/// the rank asks it while it waits.
///
/// A rank that waits for others is not to blame for standing still: the blame goes along to the one whom it
/// waits for, and falls on who waits for nobody, or on all who wait in a circle.
class JobWatch final : public PeerWatch {
 public:
  struct Failure {
    RunFailure kind = RunFailure::exception;
    int rank = -1;  ///< to blame
    std::string message;
  };

  JobWatch(int rank, int ranks, const Deadlines& deadlines);
  ~JobWatch() override;
  /// Once they are known.
  void set_places(const std::vector<RankPlace>& places);
  /// Where a rank runs: from then on the end of its process is noticed, where this one sees it.
  void set_process(int rank, const ProcessPlace& process);

  void check(int rank, const CallHeader& call) override;
  void relax() override;
  /// Throws PeerFailedError, RankLostError, MismatchError or CommunicationError where the run has failed.
  void throw_if_failed() const {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_failure();
  }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// "all_gather #5 ..." while this rank waits for it; for signs of life.
  std::string waiting_in() const;

  // For the message thread.
  /// Anything came from `rank`.
  void heard(int rank);
  void beat(int rank, uint64_t operations, int waits_for, std::string waiting_in);
  /// The program of `rank` ends without failing. It is lost if the run goes on for longer than what it sent
  /// last may take.
  void left(int rank);
  /// `rank` is not watched any more.
  void excuse(int rank);
  /// The run has failed. The first failure counts.
  void fail(const Failure& failure);
  /// Looks for processes that are gone and ranks that are silent. True when it found one just now.
  bool look();
  /// The body of the launch has ended here: other ranks may leave, and this one may work for as long as it
  /// likes.
  void end_body();
  /// Whether a rank was lost before that.
  bool lost_one() const;
  /// How long this rank has known of a failure and not come back from the body; 0 where there is none.
  std::chrono::milliseconds failed_for() const;
  /// The first failure, once there is one.
  Failure failure() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    RankPlace place;
    int process = -1;  ///< a descriptor of it; -1: none
    Clock::time_point heard, moved, gone;
    bool is_gone = false, has_left = false, is_excused = false;
    uint64_t operations = 0;
    int waits_for = -1;
    std::string waiting_in;
  };
  [[noreturn]] void throw_failure() const;
  void note_failure(RunFailure kind, int rank, const std::string& message);
  void check_progress(int rank, const CallHeader& call);
  void note_gone(Peer& peer, bool has_left);
  void open(Peer& peer);
  void look_at(int rank);
  std::string heartbeat_of(const Peer& peer) const;
  std::string named(int rank) const;
  std::string missed() const;

  int rank_;
  Deadlines deadlines_;
  const ProcessPlace own_ = this_process();
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  Clock::time_point last_look_, last_sign_, failed_at_, wait_began_;
  bool waiting_ = false, body_has_ended_ = false, failed_in_body_ = false;
  std::string waiting_in_;
  std::atomic<bool> failed_{false};
  Failure failure_;
};

}  // namespace tessera::dist
