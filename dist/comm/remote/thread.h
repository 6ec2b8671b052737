#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/comm/remote/exchange.h"
#include "dist/comm/remote/job_watch.h"
#include "dist/comm/remote/wire.h"

namespace tessera::dist {

/// What a rank shows of itself in its signs of life.
struct SignOfLife {
  uint64_t operations = 0;
  int waits_for = -1;  ///< rank in the world
};

/// The one thread of a process that calls MPI, from its initialisation on. It moves the exchanges that the
/// rank's thread posts, sends signs of life and listens for those of others; it computes nothing. While bytes
/// are under way it looks for them in steps that grow to 100 us; without, it sleeps.
class MessageThread {
 public:
  /// A launch of the process: what concerns the job while one world lives.
  struct Launch {
    uint64_t number = 0;
    std::shared_ptr<JobWatch> watch;
    std::shared_ptr<Bell> bell;  ///< of the rank
    std::function<SignOfLife()> sign;
    Deadlines deadlines;
  };

  /// Starts the thread and waits until `make_wire`, called there, has made the connection, for `patience` at
  /// longest. Rethrows what that threw; throws CommunicationError when it takes longer.
  MessageThread(std::function<std::unique_ptr<Wire>()> make_wire, std::chrono::milliseconds patience);
  /// Leaves the thread behind if it does not end by itself within a second.
  ~MessageThread();
  MessageThread(const MessageThread&) = delete;
  MessageThread& operator=(const MessageThread&) = delete;

  int rank() const;
  int size() const;

  void post(std::shared_ptr<Exchange> exchange);
  /// The exchange is not wanted any more. Its memory may still be written until its messages have ended.
  void abandon(std::shared_ptr<Exchange> exchange);
  /// From here on signs of life are missed, until `end_launch`. They are sent from the thread's start on.
  void begin_launch(Launch launch);
  /// Ends the launch of that number, if there was no other since: what is left of its exchanges is abandoned,
  /// their messages waited for, for a second at longest.
  void end_launch(uint64_t number);
  /// Tells all ranks why the run fails and which of them is to blame, and waits until that has left, for a
  /// second at longest.
  void say_farewell(const JobWatch::Failure& failure);
  /// Says that this process wants nothing more of the others, and returns when all of them have said so:
  /// true. They may work on for as long as they give signs of life; false when one of them is gone without.
  bool leave();
  /// After `leave`: ends the connection together with all other processes. False when that took longer than
  /// `patience`.
  bool finish(std::chrono::milliseconds patience);
  /// Why the thread has ended early; empty while it runs.
  std::string broken() const;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state,
                  const std::function<std::unique_ptr<Wire>()>& make_wire);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace tessera::dist
