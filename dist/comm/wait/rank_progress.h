#pragma once  // internal

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dist/comm/interface/call.h"
#include "dist/comm/interface/work.h"
#include "dist/comm/wait/peer_watch.h"
#include "tensor/function_ref.h"
#include "tensor/threads/wait_word.h"

/// How one rank advances its calls and waits for them: the base of every transport.
namespace tessera::dist {

class RankProgress;

/// A call in flight, as its rank advances it. Used by the rank's own thread alone.
class ActiveCall : public PendingCall {
 public:
  ActiveCall(RankProgress& progress, CallHeader header);
  const CallHeader& header() const { return header_; }

  bool poll() final;
  void wait_output() final;
  void wait() final;
  int missing_rank() const override = 0;

 protected:
  /// Does what is possible now, without waiting. True once the other ranks need nothing more of this call: it
  /// is then removed from the rank's list.
  virtual bool advance() = 0;
  virtual bool output_ready() const = 0;
  /// Whether no other rank reads the inputs any more. Called once the output is ready.
  virtual bool inputs_released() const = 0;
  /// Whether this rank has nothing more to do for the call; others may still read its memory.
  virtual bool own_work_done() const = 0;
  /// Whether the `missing_rank` has ended its communication, so that the call cannot complete.
  virtual bool missing_has_exited() const { return false; }

 private:
  friend class RankProgress;
  void record();

  RankProgress* progress_;  ///< null once the rank's communicators are destroyed
  CallHeader header_;
  int64_t begin_;
  bool recorded_ = false;
};

/// All calls that one rank has in flight, in all its groups, and how it waits: while it waits for one call it
/// advances all. Its event is signaled by what may end a wait: other ranks, or a thread that moves its bytes.
class RankProgress {
 public:
  struct Options {
    /// How long a wait spins before it sleeps.
    std::chrono::microseconds spin{100};
    /// Called before each sleep with the rank (in the world) that this one waits for, and with -1 afterwards.
    std::function<void(int rank)> publish_waiting = {};
  };
  /// `operations` counts calls begun and calls waited for, where others can read it: while it grows, the rank
  /// is not stuck.
  RankProgress(WaitWord& event, std::atomic<uint64_t>& operations, Options options)
      : event_(event), operations_(operations), options_(std::move(options)) {}
  /// Calls that remain throw an error when they are waited for.
  ~RankProgress();
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  WaitWord& event() const { return event_; }
  /// `check` throws when the run has failed elsewhere. Called in every wait, and in poll.
  void add_failure_check(std::function<void()> check) { failure_checks_.push_back(std::move(check)); }
  void set_spin(std::chrono::microseconds spin) { options_.spin = spin; }
  void set_watch(std::shared_ptr<PeerWatch> watch) { watch_ = std::move(watch); }

  /// Adds a call to those in flight, and advances all once.
  void add(std::shared_ptr<ActiveCall> call);
  /// Advances all calls as far as possible without waiting.
  void poll();
  /// The same, and counts an operation: a rank that polls while it works is not stuck.
  void poll_at_work() {
    count_operation();
    poll();
  }
  /// Waits until this rank has nothing more to do for any call; false where that failed. Throws nothing.
  bool complete_calls() noexcept;
  /// Removes and returns the remaining calls: other ranks may still read their memory.
  std::vector<std::shared_ptr<void>> take_calls();

 private:
  friend class ActiveCall;
  void advance_all();
  void throw_if_failed() const {
    for (const auto& check : failure_checks_) check();
  }
  void wait(ActiveCall& call, FunctionRef<bool()> reached);
  void count_operation() { operations_.fetch_add(1, std::memory_order_relaxed); }

  WaitWord& event_;
  std::atomic<uint64_t>& operations_;
  Options options_;
  std::vector<std::function<void()>> failure_checks_;
  std::shared_ptr<PeerWatch> watch_;
  std::vector<std::shared_ptr<ActiveCall>> calls_;
};

}  // namespace tessera::dist
