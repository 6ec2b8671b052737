#pragma once

#include <memory>
#include <utility>

namespace tessera::dist {

/// A communicator's state of a call in flight. Made by communicators only.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  /// Advances the call as far as possible without waiting; true once the outputs are there.
  virtual bool poll() = 0;
  /// Returns when the outputs are there.
  virtual void wait_output() = 0;
  /// Returns when the outputs are there and no other rank reads the inputs any more.
  virtual void wait() = 0;
  /// The rank, in the world, that the call waits for; -1: none, or not known.
  virtual int missing_rank() const { return -1; }
};

/// A call in flight: a handle, cheap to copy. Waits may come in any order, and a handle may be dropped: the
/// call is completed by later waits, by `Communicator::poll`, or by the communicator's destructor. While a
/// rank waits for one call it advances all others that are in flight.
class Work {
 public:
  /// A call that is over.
  Work() = default;
  /// A call in flight; null: one that is over.
  explicit Work(std::shared_ptr<PendingCall> call) : call_(std::move(call)) {}

  /// Returns when the outputs are there and the inputs may be written over or freed. Throws MismatchError,
  /// RankLostError or PeerFailedError; never waits beyond the communicator's deadlines.
  void wait() {
    if (call_) std::exchange(call_, nullptr)->wait();
  }
  /// Returns when the outputs are there. The inputs must not change until `wait`: others may still read them.
  void wait_output() const {
    if (call_) call_->wait_output();
  }
  /// Whether `wait_output` would return at once. Advances the call where that needs no waiting.
  bool is_done() const { return !call_ || call_->poll(); }

 private:
  std::shared_ptr<PendingCall> call_;
};

}  // namespace tessera::dist
