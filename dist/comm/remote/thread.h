#pragma once  // internal

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

namespace tessera::dist::remote {

/// The remote thread: the one thread of a process that calls MPI, from its initialisation on. It advances the
/// exchanges that the rank's thread posts, and sends and receives heartbeats; it computes nothing. While
/// bytes are in flight it polls in intervals that grow to 100 us; otherwise it sleeps.
class Thread {
 public:
  /// A launch of the process: the state of the job while one world lives.
  struct Launch {
    uint64_t number = 0;
    std::shared_ptr<JobWatch> watch;
    std::shared_ptr<WaitWord> event;     ///< of the rank
    std::function<RankReport()> report;  ///< of the rank, for its heartbeats
    Deadlines deadlines;
  };

  /// Starts the thread and waits, at most for `timeout`, until `make_wire`, called there, has made the
  /// connection. Rethrows what that threw; throws CommunicationError when it takes longer.
  Thread(std::function<std::unique_ptr<Wire>()> make_wire, std::chrono::milliseconds timeout);
  /// Detaches the thread if it does not end by itself within a second.
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  int rank() const;
  int size() const;

  void post(std::shared_ptr<Exchange> exchange);
  /// Abandons an exchange. Its memory may still be written until its receives have ended.
  void abandon(std::shared_ptr<Exchange> exchange);
  /// From here until `end_launch` missing heartbeats are detected. Own ones are sent from the start on.
  void begin_launch(Launch launch);
  /// Ends the launch of that number, if there was no other since: abandons its remaining exchanges and waits,
  /// at most for a second, until their sends and receives have ended.
  void end_launch(uint64_t number);
  /// Sends all ranks the reason why the run fails and which rank caused it, and waits, at most for a second,
  /// until the message has left.
  void send_abort_message(const RunFailure& failure);
  /// Announces that this process leaves the job, and returns true when all others have done so too. They may
  /// work for as long as they send heartbeats; false when one of them ended without leaving.
  bool leave();
  /// After `leave`: ends the connection together with all other processes. False when that took longer than
  /// `timeout`.
  bool finish(std::chrono::milliseconds timeout);
  /// Why the thread has ended early; empty while it runs.
  std::string broken() const;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state,
                  const std::function<std::unique_ptr<Wire>()>& make_wire);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace tessera::dist::remote
