#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dist/comm/interface/call.h"
#include "dist/comm/interface/work.h"
#include "dist/comm/wait/bell.h"
#include "dist/comm/wait/peer_watch.h"
#include "tensor/function_ref.h"

/// How one rank gets on with its calls: the base of every transport.
namespace tessera::dist {

class RankProgress;

/// A call in flight as its rank serves it. Used by the rank's own thread alone.
class ActiveCall : public PendingCall {
 public:
  ActiveCall(RankProgress& progress, CallHeader header);
  const CallHeader& header() const { return header_; }

  bool poll() final;
  void wait_output() final;
  void wait() final;

 protected:
  /// Does what can be done now, without waiting. True once this rank's peers need nothing of it any more: it
  /// is then dropped from the rank's list.
  virtual bool advance() = 0;
  virtual bool output_ready() const = 0;
  /// Whether no other rank reads the inputs any more. Asked once the output is ready.
  virtual bool inputs_free() const = 0;
  /// Whether what remains is up to others, who only need the memory to stay.
  virtual bool duties_done() const = 0;
  /// The rank, in the world, whose part is missing.
  virtual int missing_rank() const = 0;
  /// Whether that rank has ended its communication, so that its part never comes.
  virtual bool missing_has_left() const { return false; }

 private:
  friend class RankProgress;
  void record();

  RankProgress* progress_;  ///< null once the rank's communicators are gone
  CallHeader header_;
  int64_t begin_;
  bool recorded_ = false;
};

/// All that one rank has in flight, in all its groups, and how it waits: while it waits for one call it
/// serves all. Whoever may end a wait rings its bell: other ranks, or a thread that moves bytes for this one.
class RankProgress {
 public:
  struct Options {
    /// How long to look before falling asleep.
    std::chrono::microseconds spin{100};
    /// Told whom this rank waits for (in the world), from when it falls asleep; -1 after.
    std::function<void(int rank)> publish_waiting = {};
  };
  /// `operations` counts calls begun and calls waited for, where others can see it: while it moves, the rank
  /// is not stuck.
  RankProgress(Bell& bell, std::atomic<uint64_t>& operations, Options options)
      : bell_(bell), operations_(operations), options_(std::move(options)) {}
  /// Calls that are still there answer with an error from now on.
  ~RankProgress();
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  Bell& bell() const { return bell_; }
  /// `check` throws when the run has failed elsewhere. Called in every wait, and in poll.
  void add_failure_check(std::function<void()> check) { failure_checks_.push_back(std::move(check)); }
  void set_watch(std::shared_ptr<PeerWatch> watch) { watch_ = std::move(watch); }

  /// Serves the call from now on, at once too.
  void add(std::shared_ptr<ActiveCall> call);
  /// Makes what progress is possible on all calls without waiting.
  void poll();
  /// The same for a caller that works meanwhile: a rank that polls is not stuck.
  void poll_at_work() {
    count_operation();
    poll();
  }
  /// Waits until others need this rank no more. For ends of life: throws nothing; false where that failed.
  bool settle() noexcept;
  /// What is still in the list: peers may still read its memory.
  std::vector<std::shared_ptr<ActiveCall>> take_calls();

 private:
  friend class ActiveCall;
  void serve();
  void throw_if_failed() const {
    for (const auto& check : failure_checks_) check();
  }
  void wait(ActiveCall& call, FunctionRef<bool()> reached);
  void count_operation() { operations_.fetch_add(1, std::memory_order_relaxed); }

  Bell& bell_;
  std::atomic<uint64_t>& operations_;
  Options options_;
  std::vector<std::function<void()>> failure_checks_;
  std::shared_ptr<PeerWatch> watch_;
  std::vector<std::shared_ptr<ActiveCall>> calls_;
};

}  // namespace tessera::dist
