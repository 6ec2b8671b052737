#include "dist/comm/remote/job_watch.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "dist/comm/interface/errors.h"

namespace tessera::dist::remote {
namespace {

/// The time between the end of a process and its report: frames that it sent before may still arrive.
constexpr std::chrono::milliseconds last_frames_delay{500};

bool has_ended(int process) {
  pollfd event{.fd = process, .events = POLLIN, .revents = 0};
  return process >= 0 && ::poll(&event, 1, 0) == 1;
}

std::vector<int> all_ranks(int ranks) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

JobWatch::JobWatch(int rank, int ranks, const Deadlines& deadlines)
    : rank_(rank),
      deadlines_(deadlines),
      peers_(static_cast<size_t>(ranks)),
      stalls_(rank, all_ranks(ranks), deadlines.timeout,
              [this](int other) { return peers_[static_cast<size_t>(other)].report; }),
      last_search_(Clock::now()),
      thread_seen_(last_search_) {
  for (Peer& peer : peers_) peer.last_frame = last_search_;
}

void JobWatch::set_places(const std::vector<RankPlace>& places) {
  const std::lock_guard lock(mutex_);
  for (size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].place = places[r];
    if (static_cast<int>(r) != rank_) open(peers_[r]);
  }
}

void JobWatch::set_activity_source(std::function<std::optional<ActivityText>(int rank)> source) {
  const std::lock_guard lock(mutex_);
  activity_source_ = std::move(source);
}

/// "; it was in 1F3", or nothing.
std::string JobWatch::activity_of(int rank) const {
  const std::optional<ActivityText> now = activity_source_ ? activity_source_(rank) : std::nullopt;
  return described(now.value_or(peers_[static_cast<size_t>(rank)].report.activity));
}

void JobWatch::set_process(int rank, const ProcessPlace& process) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.place.process = process;
  open(peer);
}

/// From here on the end of its process is detected, also where it has ended already.
void JobWatch::open(Peer& peer) {
  if (peer.process >= 0 || peer.has_ended || !peer.place.process.shares_pids_with(own_)) return;
  peer.process = open_process(peer.place.process);
  if (peer.process < 0 && !is_running(peer.place.process)) record_end(peer, false);
}

void JobWatch::record_end(Peer& peer, bool has_exited) {
  if (peer.has_ended) return;
  peer.has_ended = true;
  peer.has_exited = has_exited;
  peer.ended_since = Clock::now();
}

void JobWatch::record_leave(int rank) {
  const std::lock_guard lock(mutex_);
  record_end(peers_[static_cast<size_t>(rank)], true);
}

void JobWatch::stop_watching(int rank) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank)].is_ignored = true;
}

JobWatch::~JobWatch() {
  for (const Peer& peer : peers_)
    if (peer.process >= 0) ::close(peer.process);
}

std::string JobWatch::rank_text(int rank) const {
  const std::string& host = peers_[static_cast<size_t>(rank)].place.host;
  return host.empty() ? text("rank ", rank) : text("rank ", rank, " on host ", host);
}

void JobWatch::fail(const RunFailure& failure) {
  const std::lock_guard lock(mutex_);
  record_failure(failure.kind, failure.rank, failure.message);
}

void JobWatch::record_failure(RunFailure::Kind kind, int rank, const std::string& message) {
  if (has_failed()) return;
  failure_ = {.kind = kind, .rank = rank, .message = message};
  failed_at_ = Clock::now();
  failed_.store(true, std::memory_order_release);
}

std::string JobWatch::missed_text() const {
  return waiting_in_.empty() ? "" : text("; rank ", rank_, " missed it in ", waiting_in_);
}

RunFailure JobWatch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void JobWatch::end_body() {
  const std::lock_guard lock(mutex_);
  body_has_ended_ = true;
  failed_in_body_ = has_failed();
}

bool JobWatch::lost_a_rank() const {
  const std::lock_guard lock(mutex_);
  return has_failed() && failure_.kind == RunFailure::Kind::lost && (failed_in_body_ || !body_has_ended_);
}

std::chrono::milliseconds JobWatch::time_since_failure() const {
  const std::lock_guard lock(mutex_);
  if (!has_failed() || body_has_ended_) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - failed_at_);
}

std::string JobWatch::waiting_in() const {
  const std::lock_guard lock(mutex_);
  return waiting_in_;
}

void JobWatch::record_frame(int rank) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank)].last_frame = Clock::now();
}

void JobWatch::record_heartbeat(int rank, const RankReport& report, std::string waiting_in) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.last_frame = Clock::now();
  peer.report = report;
  peer.waiting_in = std::move(waiting_in);
}

bool JobWatch::find_lost() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  // While this rank was stopped it received no frames.
  const auto asleep = now - std::exchange(last_search_, now);
  thread_seen_ = now;
  const bool before = has_failed();
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    Peer& peer = peers_[static_cast<size_t>(r)];
    if (r == rank_ || peer.is_ignored) continue;
    if (asleep > deadlines_.heartbeat_timeout / 4) peer.last_frame += asleep;
    if (has_ended(peer.process)) record_end(peer, false);
    check_peer(r);
  }
  return !before && has_failed();
}

void JobWatch::check_peer(int rank) {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  const auto now = Clock::now();
  if (peer.has_ended && now - peer.ended_since > last_frames_delay)
    record_failure(
        RunFailure::Kind::lost, rank,
        text(rank_text(rank), " is lost: ",
             peer.has_exited ? "its program has ended without this launch" : "its process has ended",
             missed_text(), activity_of(rank)));
  else if (!peer.has_exited && now - peer.last_frame > deadlines_.heartbeat_timeout)
    record_failure(
        RunFailure::Kind::lost, rank,
        text(rank_text(rank), " is lost: no heartbeat for ", seconds_text(deadlines_.heartbeat_timeout),
             " (stopped, or its machine or network is down)", missed_text(), activity_of(rank)));
}

void JobWatch::end_wait() {
  const std::lock_guard lock(mutex_);
  stalls_.end_wait();
  waiting_in_.clear();
}

void JobWatch::check(int rank, const CallHeader& call) {
  {
    const std::lock_guard lock(mutex_);
    waiting_in_ = to_string(call);
    if (const auto stuck = rank >= 0 ? stalls_.find_stuck(rank) : std::nullopt)
      record_stuck(*stuck, rank, call);
    if (Clock::now() - thread_seen_ > deadlines_.heartbeat_timeout)
      record_failure(
          RunFailure::Kind::broken, rank_,
          text("rank ", rank_, " can send nothing more: its remote thread did not return from MPI for ",
               seconds_text(deadlines_.heartbeat_timeout), " (in ", waiting_in_, ")"));
  }
  throw_if_failed();
}

void JobWatch::record_stuck(int rank, int waited_for, const CallHeader& call) {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  const std::string where =
      peer.waiting_in.empty() ? "it waits for no rank" : "it waits in " + peer.waiting_in;
  record_failure(RunFailure::Kind::lost, rank,
                 text(rank_text(rank), " is lost: ", heartbeat_text(peer), " has begun no call for ",
                      seconds_text(deadlines_.timeout), " (", where, ") while rank ", rank_,
                      " waits for rank ", waited_for, " in ", call, activity_of(rank)));
}

/// Where `timeout` is the shorter deadline, a stopped rank exceeds it before `heartbeat_timeout`.
std::string JobWatch::heartbeat_text(const Peer& peer) const {
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - peer.last_frame);
  if (silent < 3 * between_heartbeats(deadlines_)) return "its process runs, but";
  return text("it has sent no heartbeat for ", seconds_text(silent), " and");
}

std::chrono::milliseconds between_heartbeats(const Deadlines& deadlines) {
  return std::clamp(deadlines.heartbeat_timeout / 10, std::chrono::milliseconds(20),
                    std::chrono::milliseconds(1000));
}

}  // namespace tessera::dist::remote
