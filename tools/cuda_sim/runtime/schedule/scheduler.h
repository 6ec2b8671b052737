// Runs operations after those that they depend on, in one of three orders.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tools/cuda_sim/checks/findings.h"
#include "tools/cuda_sim/runtime/schedule/operation_log.h"
#include "tools/cuda_sim/runtime/schedule/work.h"

namespace tessera::cuda_sim {

/// Holds the operations that have not ended. An operation runs in the host thread that issues it (eager,
/// random) or that waits for it. A wait that can never end is reported with the queues of all chains, and
/// what it waited for is given up: a deadlock is a finding, not a hang.
///
/// Every function is called with the runtime's lock held and gives it up where it waits and where a host
/// function runs.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;
  struct Options {
    RunOrder order = RunOrder::eager;
    uint64_t seed = 1;
    /// After this time without any progress a wait for other host threads counts as a deadlock.
    std::chrono::milliseconds patience{60'000};
    /// The same where every thread that issues for a rank waits.
    std::chrono::milliseconds short_patience{500};
  };
  Scheduler(OperationLog& log, Findings& findings, const Options& options);

  /// Issues an operation on `chain`, after the chain's last one and after `after`.
  Operation add(Lock& lock, uint32_t chain, Work work, std::span<const Operation> after = {});
  bool is_done(Operation operation) const;
  /// Runs what `operation` needs, and waits for what other threads run. False: it can never end.
  bool wait(Lock& lock, Operation operation);
  bool wait_for_all(Lock& lock);
  /// True where it has ended; else it comes a step nearer to its end, in every order.
  bool poll(Lock& lock, Operation operation);

  /// This thread issues operations that wait for other threads; until it ends or leaves.
  void enter_rank_thread();
  void leave_rank_thread();
  /// Operations that have been issued and have not ended.
  size_t unfinished() const { return unfinished_.size(); }
  /// Operations that have ended: the simulated clock.
  uint64_t ended_operations() const { return ended_; }
  /// Operations waiting on each chain, one line each.
  std::string queues() const;
  /// Waits until something happened in another thread, at most `limit`.
  void wait_for_change(Lock& lock, std::chrono::milliseconds limit);
  /// Something other than an operation has changed that partners wait for.
  void announce_change();

 private:
  enum class State : uint8_t { waiting, running, done };
  struct Pending {
    Work work;
    uint32_t chain = 0;
    State state = State::waiting;
    bool is_parked = false;  ///< it ran and waits for partners
    std::vector<Operation> after;
  };
  Pending& at(Operation operation) { return pending_[operation - first_]; }
  const Pending& at(Operation operation) const { return pending_[operation - first_]; }
  bool is_ready(Operation operation) const;
  /// Whether the operation ended.
  bool run(Lock& lock, Operation operation);
  void finish(Operation operation);
  bool run_random(Lock& lock);
  void run_ready(Lock& lock);
  /// What has to end for `operation` to end, in the order of issue, itself last.
  std::set<Operation> needed(Operation operation, bool& partner_missing) const;
  enum class Advance : uint8_t { ended, progress, blocked, stuck };
  Advance advance(Lock& lock, Operation operation, bool one_step);
  void give_up(Operation operation);
  void report_deadlock(Operation operation);
  /// This thread counts as waiting.
  bool all_ranks_wait() const;

  OperationLog* log_;
  Findings* findings_;
  Options options_;
  std::mt19937_64 random_;
  std::deque<Pending> pending_;
  Operation first_ = 1;  ///< of pending_
  std::set<Operation> unfinished_;
  uint64_t ended_ = 0, changes_ = 0;
  std::condition_variable changed_;
  std::multiset<std::thread::id> rank_threads_;
  std::multiset<std::thread::id> waiting_threads_;
  std::chrono::steady_clock::time_point polls_blocked_since_{};
  uint64_t polls_blocked_at_ = 0;  ///< changes_ then
};

/// Whether this thread runs a host function of an operation: such a function may not use the device.
bool is_inside_host_function();

}  // namespace tessera::cuda_sim
