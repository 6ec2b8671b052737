#include "dist/comm/remote/loop.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int mailboxes = 16;
/// Turns without news before the first sleep, and the longest sleep while bytes are under way.
constexpr int turns_awake = 20;
constexpr microseconds longest_sleep{100};
/// The longest without: how late news of a failure may come.
constexpr milliseconds longest_idle{50};
/// How long an abandoned launch's messages are waited for.
constexpr milliseconds end_patience{500};
constexpr milliseconds between_looks{100};

}  // namespace

struct MessageLoop::Mailbox {
  static constexpr size_t room = sizeof(Frame) + Frame::most_payload;
  alignas(Frame) char bytes[room];
};

MessageLoop::MessageLoop(std::unique_ptr<Wire> wire)
    : wire_(std::move(wire)), peers_(static_cast<size_t>(wire_->size())) {
  for (int i = 0; i < mailboxes; ++i) listen(std::make_shared<Mailbox>());
}

void MessageLoop::listen(const std::shared_ptr<Mailbox>& mailbox) {
  wire_->receive(mailbox->bytes, Mailbox::room, Wire::any_rank, frame_tag,
                 [this, mailbox](int from, int64_t) {
                   take(from, *reinterpret_cast<const Frame*>(mailbox->bytes));
                   listen(mailbox);
                 });
}

void MessageLoop::take(int from, const Frame& frame) {
  const uint64_t number = launch_of(frame.key.group);
  const bool is_of_launch = launch_ && number == launch_->number;
  if (launch_) launch_->watch->heard(from);
  if (leave_watch_) leave_watch_->heard(from);
  if (frame.type == Frame::Type::leave) return take_leave(from);
  if (frame.type == Frame::Type::beat) return take_sign(from, frame, is_of_launch);
  if (!is_of_launch) {
    // Of a launch that this rank has not reached; those of one that it has left are of no use.
    if (number <= last_launch_) return;
  } else {
    if (frame.type == Frame::Type::farewell) {
      launch_->watch->fail(
          {.kind = frame.failure,
           .rank = frame.rank,
           .message = std::string(frame.payload(), static_cast<size_t>(frame.payload_bytes))});
      launch_->bell->ring();
      return;
    }
    if (const auto found = exchanges_.find(frame.key); found != exchanges_.end())
      return give(*found->second, from, frame);
  }
  const char* const bytes = reinterpret_cast<const char*>(&frame);
  early_[frame.key].emplace_back(
      from, std::vector<char>(bytes, bytes + sizeof(Frame) + static_cast<size_t>(frame.payload_bytes)));
}

/// Heartbeats come between launches too, and of launches that this rank has not reached or has left.
void MessageLoop::take_sign(int from, const Frame& frame, bool is_of_launch) {
  ProcessPlace& known = peers_[static_cast<size_t>(from)].process;
  if (known.pid == 0) {
    known = frame.process;
    if (launch_) launch_->watch->set_process(from, known);
    if (leave_watch_) leave_watch_->set_process(from, known);
  }
  if (is_of_launch)
    launch_->watch->beat(from, frame.operations, frame.rank,
                         std::string(frame.payload(), static_cast<size_t>(frame.payload_bytes)));
}

void MessageLoop::take_leave(int from) {
  peers_[static_cast<size_t>(from)].has_left = true;
  if (launch_) launch_->watch->left(from);
  if (leave_watch_) leave_watch_->excuse(from);
}

void MessageLoop::start(const std::shared_ptr<Exchange>& exchange) {
  exchanges_[exchange->key] = exchange;
  exchange->start(*wire_, next_data_tag_);
  const auto early = early_.extract(exchange->key);
  if (early.empty()) return;
  for (const auto& [from, bytes] : early.mapped())
    give(*exchange, from, *reinterpret_cast<const Frame*>(bytes.data()));
}

/// Ranks that call different things are told to all: others of the job may wait for them elsewhere.
void MessageLoop::give(Exchange& exchange, int from, const Frame& frame) {
  const bool before = !exchange.mismatch().empty();
  exchange.take(*wire_, from, frame);
  if (before || exchange.mismatch().empty()) return;
  const JobWatch::Failure failure{
      .kind = RunFailure::mismatched, .rank = from, .message = exchange.mismatch()};
  launch_->watch->fail(failure);
  launch_->bell->ring();
  say_farewell(failure, [] {});
}

void MessageLoop::drop_finished() {
  std::erase_if(exchanges_, [](const auto& entry) { return entry.second->over(); });
  std::erase_if(leftover_, [](const auto& exchange) { return !exchange->in_flight(); });
}

void MessageLoop::abandon_all() {
  for (const auto& [key, exchange] : exchanges_) {
    exchange->abandon();
    leftover_.push_back(exchange);
  }
  exchanges_.clear();
}

void MessageLoop::begin_launch(std::unique_ptr<MessageThread::Launch> launch) {
  abandon_all();  // exchanges of a launch that failed early, or whose communicators are kept
  if (end_launch_) std::exchange(end_launch_, nullptr)();
  launch_ = std::move(launch);
  last_launch_ = launch_->number;
  deadlines_ = launch_->deadlines;
  sends_signs_ = true;
  next_sign_ = next_look_ = Clock::now();
  for (int r = 0; r < wire_->size(); ++r) {
    const Peer& peer = peers_[static_cast<size_t>(r)];
    if (peer.process.pid != 0) launch_->watch->set_process(r, peer.process);
    if (peer.has_left) launch_->watch->left(r);
  }
  // What other ranks said before this one came.
  auto early = std::move(early_);
  early_.clear();
  for (const auto& [key, frames] : early)
    for (const auto& [from, bytes] : frames) take(from, *reinterpret_cast<const Frame*>(bytes.data()));
}

Frame MessageLoop::own_sign() const {
  Frame frame;
  frame.type = Frame::Type::beat;
  frame.key.group = group_id(last_launch_, 0, 0);
  frame.process = own_place_;
  if (!launch_) return frame;
  const SignOfLife sign = launch_->sign();
  frame.operations = sign.operations;
  frame.rank = sign.waits_for;
  return frame;
}

void MessageLoop::send_signs() {
  const std::string words = launch_ ? launch_->watch->waiting_in().substr(0, 256) : "";
  Frame frame = own_sign();
  frame.payload_bytes = static_cast<int32_t>(words.size());
  for (int to = 0; to < wire_->size(); ++to) {
    std::shared_ptr<bool>& leaving = peers_[static_cast<size_t>(to)].sign_leaving;
    if (to == wire_->rank() || (leaving && *leaving)) continue;
    leaving = std::make_shared<bool>(true);
    send_frame(*wire_, to, frame, words.data(), [leaving = leaving](int, int64_t) { *leaving = false; });
  }
}

void MessageLoop::say_farewell(const JobWatch::Failure& failure, std::function<void()> said) {
  if (!launch_ || wire_->size() == 1) return said();
  Frame frame;
  frame.type = Frame::Type::farewell;
  frame.key.group = group_id(launch_->number, 0, 0);
  frame.failure = failure.kind;
  frame.rank = failure.rank;
  frame.payload_bytes = static_cast<int32_t>(std::min<size_t>(failure.message.size(), Frame::most_payload));
  const auto leaving = std::make_shared<int>(wire_->size() - 1);
  const auto done = std::make_shared<std::function<void()>>(std::move(said));
  for (int to = 0; to < wire_->size(); ++to) {
    if (to == wire_->rank()) continue;
    send_frame(*wire_, to, frame, failure.message.data(), [leaving, done](int, int64_t) {
      if (--*leaving == 0) (*done)();
    });
  }
}

/// A rank that has known for long that the run is over and is still not gone does not come back from what it
/// is in; nobody else can end it where the network is cut.
void leave_alone(const JobWatch& watch) {
  std::fprintf(stderr, "%s; leaving, since this rank does not come back from what it is doing\n",
               watch.failure().message.c_str());
  std::fflush(stderr);
  std::_Exit(5);
}

void MessageLoop::look_around() {
  const auto now = Clock::now();
  if (launch_ && now >= next_look_) {
    next_look_ = now + between_looks;
    if (launch_->watch->look()) launch_->bell->ring();
    if (launch_->watch->failed_for() > std::max(launch_->deadlines.silence, launch_->deadlines.timeout))
      leave_alone(*launch_->watch);
  }
  if (sends_signs_ && now >= next_sign_) {
    next_sign_ = now + between_heartbeats(deadlines_);
    send_signs();
  }
}

void MessageLoop::settle_end() {
  if (!end_launch_ || (!leftover_.empty() && Clock::now() < end_by_)) return;
  // MPI may end a process that writes to one that is gone.
  if (launch_ && launch_->watch->lost_one()) sends_signs_ = false;
  launch_.reset();
  std::exchange(end_launch_, nullptr)();
}

/// Says that nothing more comes from this rank, and begins to wait for the same of all others: they may work
/// for as long as they are alive.
void MessageLoop::begin_leave(std::function<void()> done) {
  leave_ = std::move(done);
  sends_signs_ = false;
  leave_watch_ = std::make_unique<JobWatch>(wire_->rank(), wire_->size(), deadlines_);
  Frame frame;
  frame.type = Frame::Type::leave;
  for (int r = 0; r < wire_->size(); ++r) {
    if (r == wire_->rank()) continue;
    const Peer& peer = peers_[static_cast<size_t>(r)];
    if (peer.has_left) leave_watch_->excuse(r);
    if (peer.process.pid != 0) leave_watch_->set_process(r, peer.process);
    send_frame(*wire_, r, frame, nullptr);
  }
}

/// False when a rank is lost that has not left, or messages do not leave: there is no leaving together then.
bool MessageLoop::settle_leave() {
  if (!leave_) return true;
  const auto has_left = [&](const Peer& peer) {
    return peer.has_left || &peer == &peers_[static_cast<size_t>(wire_->rank())];
  };
  const auto now = Clock::now();
  if (!std::all_of(peers_.begin(), peers_.end(), has_left)) {
    leave_by_ = now + end_patience;
    if (now < next_look_) return true;
    next_look_ = now + between_looks;
    return !leave_watch_->look();
  }
  if (wire_->is_sending()) return now < leave_by_;
  std::exchange(leave_, nullptr)();
  return true;
}

bool MessageLoop::turn(Orders orders) {
  if (orders.launch) begin_launch(std::move(orders.launch));
  for (const auto& exchange : orders.posted) start(exchange);
  for (const auto& exchange : orders.abandoned) {
    exchange->abandon();
    exchanges_.erase(exchange->key);
    leftover_.push_back(exchange);
  }
  if (orders.farewell_said) say_farewell(orders.farewell, std::move(orders.farewell_said));
  if (orders.end_launch && (!launch_ || launch_->number != orders.ended_launch)) {
    orders.end_launch();
  } else if (orders.end_launch) {
    abandon_all();
    end_launch_ = std::move(orders.end_launch);
    end_by_ = Clock::now() + end_patience;
  }
  if (orders.leave) begin_leave(std::move(orders.leave));
  quiet_turns_ = wire_->test() || !orders.empty() ? 0 : quiet_turns_ + 1;
  drop_finished();
  settle_end();
  look_around();
  if (!settle_leave()) return false;
  if (orders.finish) {
    wire_->finish();
    orders.finish();
    return false;
  }
  return !orders.stop;
}

bool MessageLoop::is_idle() const {
  return exchanges_.empty() && leftover_.empty() && !end_launch_;
}

microseconds MessageLoop::pause() const {
  if (is_idle()) return std::min(between_heartbeats(deadlines_), longest_idle);
  if (quiet_turns_ < turns_awake) return microseconds(0);
  return std::min(longest_sleep, microseconds(5) * (quiet_turns_ - turns_awake + 1));
}

void MessageLoop::tell_broken(const std::string& why) {
  if (!launch_) return;
  launch_->watch->fail({.kind = RunFailure::broken,
                        .rank = wire_->rank(),
                        .message = text("rank ", wire_->rank(), " can send no more messages: ", why)});
  launch_->bell->ring();
}

}  // namespace tessera::dist
