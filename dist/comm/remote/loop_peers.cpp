// What the loop sends the other processes beside exchanges, and receives from them: heartbeats, abort
// messages, and that they leave the job.
#include <algorithm>

#include "dist/comm/remote/loop.h"

namespace tessera::dist::remote {

/// Heartbeats also come between launches, and from launches that this rank has not reached or has left.
void Loop::handle_heartbeat(int from, const Frame& frame, bool is_of_launch) {
  ProcessPlace& process = peers_[static_cast<size_t>(from)].process;
  if (process.pid == 0) {
    process = frame.process;
    if (launch_) launch_->watch->set_process(from, process);
    if (leave_watch_) leave_watch_->set_process(from, process);
  }
  if (is_of_launch)
    launch_->watch->record_heartbeat(
        from, {.operations = frame.operations, .waits_for = frame.waits_for, .activity = frame.activity},
        frame.payload_text());
}

void Loop::handle_leave(int from) {
  peers_[static_cast<size_t>(from)].has_exited = true;
  if (launch_) launch_->watch->record_leave(from);
  if (leave_watch_) leave_watch_->stop_watching(from);
}

Frame Loop::own_heartbeat() const {
  Frame frame;
  frame.type = Frame::Type::heartbeat;
  frame.key.group = group_id(last_launch_, 0, 0);
  frame.process = own_place_;
  if (!launch_) return frame;
  const RankReport own = launch_->report();
  frame.operations = own.operations;
  frame.waits_for = own.waits_for;
  frame.activity = own.activity;
  return frame;
}

void Loop::send_heartbeats() {
  const std::string waiting_in = launch_ ? launch_->watch->waiting_in().substr(0, 256) : "";
  Frame frame = own_heartbeat();
  frame.payload_bytes = static_cast<int32_t>(waiting_in.size());
  for (int to = 0; to < wire_->size(); ++to) {
    std::shared_ptr<bool>& leaving = peers_[static_cast<size_t>(to)].heartbeat_is_leaving;
    if (to == wire_->rank() || (leaving && *leaving)) continue;
    leaving = std::make_shared<bool>(true);
    send_frame(*wire_, to, frame, waiting_in.data(), [leaving = leaving](int, int64_t) { *leaving = false; });
  }
}

void Loop::send_abort_message(const RunFailure& failure, std::function<void()> sent) {
  if (!launch_ || wire_->size() == 1) return sent();
  Frame frame;
  frame.type = Frame::Type::abort;
  frame.key.group = group_id(launch_->number, 0, 0);
  const PostedFailure posted = encode(failure);
  frame.payload_bytes = static_cast<int32_t>(used_bytes(posted));
  const auto leaving = std::make_shared<int>(wire_->size() - 1);
  const auto done = std::make_shared<std::function<void()>>(std::move(sent));
  for (int to = 0; to < wire_->size(); ++to) {
    if (to == wire_->rank()) continue;
    send_frame(*wire_, to, frame, &posted, [leaving, done](int, int64_t) {
      if (--*leaving == 0) (*done)();
    });
  }
}

/// Sends a leave frame to all others, and begins to wait for theirs: as long as they send heartbeats.
void Loop::begin_leave(std::function<void()> done) {
  leave_ = std::move(done);
  leave_by_ = Clock::now() + end_timeout;  // also for the last rank, which waits for no other one
  sends_heartbeats_ = false;
  leave_watch_ = std::make_unique<JobWatch>(wire_->rank(), wire_->size(), deadlines_);
  Frame frame;
  frame.type = Frame::Type::leave;
  for (int r = 0; r < wire_->size(); ++r) {
    if (r == wire_->rank()) continue;
    const Peer& peer = peers_[static_cast<size_t>(r)];
    if (peer.has_exited) leave_watch_->stop_watching(r);
    if (peer.process.pid != 0) leave_watch_->set_process(r, peer.process);
    send_frame(*wire_, r, frame, nullptr);
  }
}

/// False when a rank is lost before it left, or frames cannot be sent: then ranks do not leave together.
bool Loop::advance_leave() {
  if (!leave_) return true;
  const auto has_exited = [&](const Peer& peer) {
    return peer.has_exited || &peer == &peers_[static_cast<size_t>(wire_->rank())];
  };
  const auto now = Clock::now();
  if (!std::all_of(peers_.begin(), peers_.end(), has_exited)) {
    leave_by_ = now + end_timeout;
    if (now < next_search_) return true;
    next_search_ = now + between_searches;
    return !leave_watch_->find_lost();
  }
  if (wire_->is_sending()) return now < leave_by_;
  std::exchange(leave_, nullptr)();
  return true;
}

}  // namespace tessera::dist::remote
