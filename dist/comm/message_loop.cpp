#include "dist/comm/message_loop.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dist/comm/errors.h"

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

milliseconds between_signs(const Deadlines& deadlines) {
  return std::clamp(deadlines.silence / 10, milliseconds(20), milliseconds(1000));
}

}  // namespace

struct MessageLoop::Mailbox {
  static constexpr size_t room = sizeof(Frame) + Frame::most_payload;
  alignas(Frame) char bytes[room];
};

MessageLoop::MessageLoop(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {
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
  if (!launch_ || launch_of(frame.key.group) != launch_->number) {
    // Of a launch that this rank has not reached; those of one that it has left are of no use.
    if (frame.type == Frame::Type::beat || (launch_ && launch_of(frame.key.group) < launch_->number)) return;
  } else {
    launch_->watch->heard(from);
    if (frame.type == Frame::Type::beat) {
      launch_->watch->beat(from, frame.operations, frame.rank,
                           std::string(frame.payload(), static_cast<size_t>(frame.payload_bytes)));
      return;
    }
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
  abandon_all();  // of a launch that failed before it was complete
  launch_ = std::move(launch);
  sign_leaving_.assign(static_cast<size_t>(wire_->size()), nullptr);
  next_sign_ = next_look_ = Clock::now();
  // What other ranks said before this one came.
  auto early = std::move(early_);
  early_.clear();
  for (const auto& [key, frames] : early)
    for (const auto& [from, bytes] : frames) take(from, *reinterpret_cast<const Frame*>(bytes.data()));
}

void MessageLoop::send_signs() {
  const SignOfLife sign = launch_->sign();
  const std::string words = launch_->watch->waiting_in().substr(0, 256);
  Frame frame;
  frame.type = Frame::Type::beat;
  frame.key.group = group_id(launch_->number, 0, 0);
  frame.operations = sign.operations;
  frame.rank = sign.waits_for;
  frame.payload_bytes = static_cast<int32_t>(words.size());
  for (int to = 0; to < wire_->size(); ++to) {
    std::shared_ptr<bool>& leaving = sign_leaving_[static_cast<size_t>(to)];
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
  if (!launch_) return;
  if (now >= next_look_) {
    next_look_ = now + between_looks;
    if (launch_->watch->look()) launch_->bell->ring();
    if (launch_->watch->failed_for() > std::max(launch_->deadlines.silence, launch_->deadlines.timeout))
      leave_alone(*launch_->watch);
  }
  if (now >= next_sign_) {
    next_sign_ = now + between_signs(launch_->deadlines);
    send_signs();
  }
}

void MessageLoop::settle_end() {
  if (!end_launch_ || (!leftover_.empty() && Clock::now() < end_by_)) return;
  launch_.reset();
  std::exchange(end_launch_, nullptr)();
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
  if (orders.end_launch) {
    abandon_all();
    end_launch_ = std::move(orders.end_launch);
    end_by_ = Clock::now() + end_patience;
  }
  quiet_turns_ = wire_->test() || !orders.empty() ? 0 : quiet_turns_ + 1;
  drop_finished();
  settle_end();
  look_around();
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
  if (is_idle()) return launch_ ? std::min(between_signs(launch_->deadlines), longest_idle) : longest_idle;
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
