#pragma once  // internal

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/remote/thread.h"

namespace tessera::dist::remote {

/// The work of the remote thread, in turns.
class Loop {
 public:
  /// What the rank's thread requests.
  struct Requests {
    std::vector<std::shared_ptr<Exchange>> posted, abandoned;
    std::unique_ptr<Thread::Launch> launch;
    RunFailure abort_message;
    uint64_t ended_launch = 0;                                            ///< the one that `end_launch` ends
    std::function<void()> abort_message_sent, end_launch, leave, finish;  ///< called when done
    bool stop = false;
    bool empty() const {
      return posted.empty() && abandoned.empty() && !launch && !abort_message_sent && !end_launch && !leave &&
             !finish && !stop;
    }
  };

  explicit Loop(std::unique_ptr<Wire> wire);

  Wire& wire() const { return *wire_; }
  /// False when this was the last turn.
  bool run_once(Requests requests);
  /// How long to sleep before the next turn, unless requests come.
  std::chrono::microseconds pause() const;
  /// Whether nothing in flight needs turns.
  bool is_idle() const;
  void report_broken(const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;
  /// How long the sends and receives of an abandoned launch are waited for.
  static constexpr std::chrono::milliseconds end_timeout{500};
  /// The time between two searches for lost ranks.
  static constexpr std::chrono::milliseconds between_searches{100};
  struct FrameBuffer;  ///< a frame being received
  /// The state of another process that does not depend on the launch.
  struct Peer {
    ProcessPlace process;
    bool has_exited = false;
    std::shared_ptr<bool> heartbeat_is_leaving;  ///< the last heartbeat has not left
  };

  void post_receive(const std::shared_ptr<FrameBuffer>& buffer);
  void handle_frame(int from, const Frame& frame);
  void start(const std::shared_ptr<Exchange>& exchange);
  void drop_finished();
  void abandon_all();
  void begin_launch(std::unique_ptr<Thread::Launch> launch);
  void send_abort_message(const RunFailure& failure, std::function<void()> sent);
  void pass_frame(Exchange& exchange, int from, const Frame& frame);
  void handle_heartbeat(int from, const Frame& frame, bool is_of_launch);
  void handle_leave(int from);
  Frame own_heartbeat() const;
  void send_heartbeats();
  void run_periodic_work();
  void finish_end_launch();
  void begin_leave(std::function<void()> done);
  bool advance_leave();

  std::unique_ptr<Wire> wire_;
  std::map<FrameKey, std::shared_ptr<Exchange>> exchanges_;
  /// Frames that came before this rank's own call, by the call, each with its sender.
  std::map<FrameKey, std::vector<std::pair<int, std::vector<char>>>> early_frames_;
  std::vector<std::shared_ptr<Exchange>> abandoned_;  ///< abandoned, with sends or receives in flight
  std::unique_ptr<Thread::Launch> launch_;
  std::vector<Peer> peers_;  ///< by rank
  std::function<void()> end_launch_, leave_;
  std::unique_ptr<JobWatch> leave_watch_;  ///< of the ranks that this one waits for when it leaves
  Clock::time_point next_heartbeat_{}, next_search_{}, end_by_{}, leave_by_{};
  ProcessPlace own_place_ = this_process();
  Deadlines deadlines_;       ///< of the last launch
  uint64_t last_launch_ = 0;  ///< its number
  bool sends_heartbeats_ = true;
  int next_data_tag_ = first_data_tag;
  int idle_iterations_ = 0;
};

}  // namespace tessera::dist::remote
