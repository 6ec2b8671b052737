#include "dist/comm/remote/loop.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "dist/comm/interface/errors.h"

namespace tessera::dist::remote {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int frame_buffers = 16;
/// Turns without events before the first sleep, and the longest sleep while bytes are in flight.
constexpr int turns_awake = 20;
constexpr microseconds longest_sleep{100};
/// The longest sleep otherwise: the delay with which a failure is noticed.
constexpr milliseconds longest_idle_sleep{50};

}  // namespace

struct Loop::FrameBuffer {
  static constexpr size_t room = sizeof(Frame) + Frame::most_payload;
  alignas(Frame) char bytes[room];
};

Loop::Loop(std::unique_ptr<Wire> wire) : wire_(std::move(wire)), peers_(static_cast<size_t>(wire_->size())) {
  for (int i = 0; i < frame_buffers; ++i) post_receive(std::make_shared<FrameBuffer>());
}

void Loop::post_receive(const std::shared_ptr<FrameBuffer>& buffer) {
  wire_->receive(buffer->bytes, FrameBuffer::room, Wire::any_rank, frame_tag,
                 [this, buffer](int from, int64_t count) {
                   handle_frame(from, frame_in(buffer->bytes, count, from));
                   post_receive(buffer);
                 });
}

void Loop::handle_frame(int from, const Frame& frame) {
  const uint64_t number = launch_of(frame.key.group);
  const bool is_of_launch = launch_ && number == launch_->number;
  if (launch_) launch_->watch->record_frame(from);
  if (leave_watch_) leave_watch_->record_frame(from);
  if (frame.type == Frame::Type::leave) return handle_leave(from);
  if (frame.type == Frame::Type::heartbeat) return handle_heartbeat(from, frame, is_of_launch);
  if (!is_of_launch) {
    // Frames of a launch that this rank has not reached are kept; those of earlier launches are dropped.
    if (number <= last_launch_) return;
  } else {
    if (frame.type == Frame::Type::abort) {
      launch_->watch->fail(failure_in(frame));
      launch_->event->signal();
      return;
    }
    if (const auto found = exchanges_.find(frame.key); found != exchanges_.end())
      return pass_frame(*found->second, from, frame);
  }
  const char* const bytes = reinterpret_cast<const char*>(&frame);
  early_frames_[frame.key].emplace_back(from, std::vector<char>(bytes, bytes + frame.size()));
}

void Loop::start(const std::shared_ptr<Exchange>& exchange) {
  exchanges_[exchange->key] = exchange;
  exchange->start(*wire_, next_data_tag_);
  const auto early = early_frames_.extract(exchange->key);
  if (early.empty()) return;
  for (const auto& [from, bytes] : early.mapped())
    pass_frame(*exchange, from, *reinterpret_cast<const Frame*>(bytes.data()));
}

/// A mismatch is reported to all ranks: others of the job may wait for these ranks in other calls.
void Loop::pass_frame(Exchange& exchange, int from, const Frame& frame) {
  const bool before = !exchange.mismatch().empty();
  exchange.receive_frame(*wire_, from, frame);
  if (before || exchange.mismatch().empty()) return;
  const RunFailure failure{
      .kind = RunFailure::Kind::mismatched, .rank = from, .message = exchange.mismatch()};
  launch_->watch->fail(failure);
  launch_->event->signal();
  send_abort_message(failure, [] {});
}

void Loop::drop_finished() {
  std::erase_if(exchanges_, [](const auto& entry) { return entry.second->over(); });
  std::erase_if(abandoned_, [](const auto& exchange) { return !exchange->in_flight(); });
}

void Loop::abandon_all() {
  for (const auto& [key, exchange] : exchanges_) {
    exchange->abandon();
    abandoned_.push_back(exchange);
  }
  exchanges_.clear();
}

void Loop::begin_launch(std::unique_ptr<Thread::Launch> launch) {
  abandon_all();  // exchanges of a launch that failed early, or whose communicators are kept
  if (end_launch_) std::exchange(end_launch_, nullptr)();
  launch_ = std::move(launch);
  last_launch_ = launch_->number;
  deadlines_ = launch_->deadlines;
  sends_heartbeats_ = true;
  next_heartbeat_ = next_search_ = Clock::now();
  for (int r = 0; r < wire_->size(); ++r) {
    const Peer& peer = peers_[static_cast<size_t>(r)];
    if (peer.process.pid != 0) launch_->watch->set_process(r, peer.process);
    if (peer.has_exited) launch_->watch->record_leave(r);
  }
  // Frames that came before this rank's launch.
  auto early = std::move(early_frames_);
  early_frames_.clear();
  for (const auto& [key, frames] : early)
    for (const auto& [from, bytes] : frames)
      handle_frame(from, *reinterpret_cast<const Frame*>(bytes.data()));
}

/// Ends a process whose rank does not return from the body long after the run has failed. Where the network
/// is cut, only the process itself can do that.
void exit_alone(const JobWatch& watch) {
  std::fprintf(stderr, "%s; exiting, since the body of this rank does not return\n",
               watch.failure().message.c_str());
  std::fflush(stderr);
  std::_Exit(5);
}

void Loop::run_periodic_work() {
  const auto now = Clock::now();
  if (launch_ && now >= next_search_) {
    next_search_ = now + between_searches;
    if (launch_->watch->find_lost()) launch_->event->signal();
    if (launch_->watch->time_since_failure() >
        std::max(launch_->deadlines.heartbeat_timeout, launch_->deadlines.timeout))
      exit_alone(*launch_->watch);
  }
  if (sends_heartbeats_ && now >= next_heartbeat_) {
    next_heartbeat_ = now + between_heartbeats(deadlines_);
    send_heartbeats();
  }
}

void Loop::finish_end_launch() {
  if (!end_launch_ || (!abandoned_.empty() && Clock::now() < end_by_)) return;
  // MPI may end a process that sends to one that has ended.
  if (launch_ && launch_->watch->lost_a_rank()) sends_heartbeats_ = false;
  launch_.reset();
  std::exchange(end_launch_, nullptr)();
}

bool Loop::run_once(Requests requests) {
  if (requests.launch) begin_launch(std::move(requests.launch));
  for (const auto& exchange : requests.posted) start(exchange);
  for (const auto& exchange : requests.abandoned) {
    exchange->abandon();
    exchanges_.erase(exchange->key);
    abandoned_.push_back(exchange);
  }
  if (requests.abort_message_sent)
    send_abort_message(requests.abort_message, std::move(requests.abort_message_sent));
  if (requests.end_launch && (!launch_ || launch_->number != requests.ended_launch)) {
    requests.end_launch();
  } else if (requests.end_launch) {
    abandon_all();
    end_launch_ = std::move(requests.end_launch);
    end_by_ = Clock::now() + end_timeout;
  }
  if (requests.leave) begin_leave(std::move(requests.leave));
  idle_iterations_ = wire_->test() || !requests.empty() ? 0 : idle_iterations_ + 1;
  drop_finished();
  finish_end_launch();
  run_periodic_work();
  if (!advance_leave()) return false;
  if (requests.finish) {
    wire_->finish();
    requests.finish();
    return false;
  }
  return !requests.stop;
}

bool Loop::is_idle() const {
  return exchanges_.empty() && abandoned_.empty() && !end_launch_;
}

microseconds Loop::pause() const {
  if (is_idle()) return std::min(between_heartbeats(deadlines_), longest_idle_sleep);
  if (idle_iterations_ < turns_awake) return microseconds(0);
  return std::min(longest_sleep, microseconds(5) * (idle_iterations_ - turns_awake + 1));
}

void Loop::report_broken(const std::string& why) {
  if (!launch_) return;
  launch_->watch->fail({.kind = RunFailure::Kind::broken,
                        .rank = wire_->rank(),
                        .message = text("rank ", wire_->rank(), " can send nothing more: ", why)});
  launch_->event->signal();
}

}  // namespace tessera::dist::remote
