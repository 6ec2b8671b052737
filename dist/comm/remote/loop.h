#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/remote/thread.h"

namespace tessera::dist {

/// What the message thread does, turn by turn.
class MessageLoop {
 public:
  /// What the rank's thread wants done.
  struct Orders {
    std::vector<std::shared_ptr<Exchange>> posted, abandoned;
    std::unique_ptr<MessageThread::Launch> launch;
    JobWatch::Failure farewell;
    uint64_t ended_launch = 0;                                       ///< the one that `end_launch` ends
    std::function<void()> farewell_said, end_launch, leave, finish;  ///< called when done
    bool stop = false;
    bool empty() const {
      return posted.empty() && abandoned.empty() && !launch && !farewell_said && !end_launch && !leave &&
             !finish && !stop;
    }
  };

  explicit MessageLoop(std::unique_ptr<Wire> wire);

  Wire& wire() const { return *wire_; }
  /// False when this was the last turn.
  bool turn(Orders orders);
  /// How long to sleep before the next turn, unless orders come.
  std::chrono::microseconds pause() const;
  /// Whether nothing is under way that needs turns.
  bool is_idle() const;
  void tell_broken(const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Mailbox;  ///< a frame being received
  /// What is known of another process beside any launch.
  struct Peer {
    ProcessPlace process;
    bool has_left = false;
    std::shared_ptr<bool> sign_leaving;  ///< the last heartbeat has not left
  };

  void listen(const std::shared_ptr<Mailbox>& mailbox);
  void take(int from, const Frame& frame);
  void start(const std::shared_ptr<Exchange>& exchange);
  void drop_finished();
  void abandon_all();
  void begin_launch(std::unique_ptr<MessageThread::Launch> launch);
  void say_farewell(const JobWatch::Failure& failure, std::function<void()> said);
  void give(Exchange& exchange, int from, const Frame& frame);
  void take_sign(int from, const Frame& frame, bool is_of_launch);
  void take_leave(int from);
  Frame own_sign() const;
  void send_signs();
  void look_around();
  void settle_end();
  void begin_leave(std::function<void()> done);
  bool settle_leave();

  std::unique_ptr<Wire> wire_;
  std::map<FrameKey, std::shared_ptr<Exchange>> exchanges_;
  /// Frames that came before this rank's own call, by what they belong to; and the senders.
  std::map<FrameKey, std::vector<std::pair<int, std::vector<char>>>> early_;
  std::vector<std::shared_ptr<Exchange>> leftover_;  ///< abandoned, with messages under way
  std::unique_ptr<MessageThread::Launch> launch_;
  std::vector<Peer> peers_;  ///< by rank
  std::function<void()> end_launch_, leave_;
  std::unique_ptr<JobWatch> leave_watch_;  ///< over those that this rank waits for when it leaves
  Clock::time_point next_sign_{}, next_look_{}, end_by_{}, leave_by_{};
  ProcessPlace own_place_ = this_process();
  Deadlines deadlines_;       ///< of the last launch
  uint64_t last_launch_ = 0;  ///< its number
  bool sends_signs_ = true;
  int next_data_tag_ = first_data_tag;
  int quiet_turns_ = 0;
};

}  // namespace tessera::dist
