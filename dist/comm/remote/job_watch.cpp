#include "dist/comm/remote/job_watch.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dist/comm/interface/errors.h"

namespace tessera::dist {
namespace {

/// How long a process may be gone before that is said: what it sent last may still be on its way.
constexpr std::chrono::milliseconds last_words{500};

std::string seconds(std::chrono::milliseconds time) {
  return text(static_cast<double>(time.count()) / 1000, " s");
}

bool has_ended(int process) {
  pollfd event{.fd = process, .events = POLLIN, .revents = 0};
  return process >= 0 && ::poll(&event, 1, 0) == 1;
}

}  // namespace

JobWatch::JobWatch(int rank, int ranks, const Deadlines& deadlines)
    : rank_(rank),
      deadlines_(deadlines),
      peers_(static_cast<size_t>(ranks)),
      last_look_(Clock::now()),
      last_sign_(last_look_) {
  for (Peer& peer : peers_) peer.heard = peer.moved = last_look_;
}

void JobWatch::set_places(const std::vector<RankPlace>& places) {
  const std::lock_guard lock(mutex_);
  for (size_t r = 0; r < peers_.size(); ++r) {
    peers_[r].place = places[r];
    if (static_cast<int>(r) != rank_) open(peers_[r]);
  }
}

void JobWatch::set_process(int rank, const ProcessPlace& process) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.place.process = process;
  open(peer);
}

/// From here on its end is noticed; or it has ended already.
void JobWatch::open(Peer& peer) {
  if (peer.process >= 0 || peer.is_gone || !peer.place.process.sees(own_)) return;
  peer.process = open_process(peer.place.process);
  if (peer.process < 0 && !is_running(peer.place.process)) note_gone(peer, false);
}

void JobWatch::note_gone(Peer& peer, bool has_left) {
  if (peer.is_gone) return;
  peer.is_gone = true;
  peer.has_left = has_left;
  peer.gone = Clock::now();
}

void JobWatch::left(int rank) {
  const std::lock_guard lock(mutex_);
  note_gone(peers_[static_cast<size_t>(rank)], true);
}

void JobWatch::excuse(int rank) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank)].is_excused = true;
}

JobWatch::~JobWatch() {
  for (const Peer& peer : peers_)
    if (peer.process >= 0) ::close(peer.process);
}

std::string JobWatch::named(int rank) const {
  const std::string& host = peers_[static_cast<size_t>(rank)].place.host;
  return host.empty() ? text("rank ", rank) : text("rank ", rank, " on host ", host);
}

void JobWatch::fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  note_failure(failure.kind, failure.rank, failure.message);
}

void JobWatch::note_failure(RunFailure kind, int rank, const std::string& message) {
  if (has_failed()) return;
  failure_ = {.kind = kind, .rank = rank, .message = message};
  failed_at_ = Clock::now();
  failed_.store(true, std::memory_order_release);
}

void JobWatch::throw_failure() const {
  const std::lock_guard lock(mutex_);
  switch (failure_.kind) {
    case RunFailure::exception:
      throw PeerFailedError(text("rank ", failure_.rank, " failed: ", failure_.message), failure_.rank);
    case RunFailure::lost:
      throw RankLostError(failure_.message, failure_.rank);
    case RunFailure::mismatched:
      throw MismatchError(failure_.message);
    default:
      throw CommunicationError(failure_.message);
  }
}

std::string JobWatch::missed() const {
  return waiting_in_.empty() ? "" : text("; rank ", rank_, " missed it in ", waiting_in_);
}

JobWatch::Failure JobWatch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void JobWatch::end_body() {
  const std::lock_guard lock(mutex_);
  body_has_ended_ = true;
  failed_in_body_ = has_failed();
}

bool JobWatch::lost_one() const {
  const std::lock_guard lock(mutex_);
  return has_failed() && failure_.kind == RunFailure::lost && (failed_in_body_ || !body_has_ended_);
}

std::chrono::milliseconds JobWatch::failed_for() const {
  const std::lock_guard lock(mutex_);
  if (!has_failed() || body_has_ended_) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - failed_at_);
}

std::string JobWatch::waiting_in() const {
  const std::lock_guard lock(mutex_);
  return waiting_in_;
}

void JobWatch::heard(int rank) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(rank)].heard = Clock::now();
}

void JobWatch::beat(int rank, uint64_t operations, int waits_for, std::string waiting_in) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.heard = Clock::now();
  if (operations != peer.operations) peer.moved = peer.heard;
  peer.operations = operations;
  peer.waits_for = waits_for;
  peer.waiting_in = std::move(waiting_in);
}

bool JobWatch::look() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  // A rank that was stopped itself has heard no other in that time.
  const auto asleep = now - std::exchange(last_look_, now);
  last_sign_ = now;
  const bool before = has_failed();
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) {
    Peer& peer = peers_[static_cast<size_t>(r)];
    if (r == rank_ || peer.is_excused) continue;
    if (asleep > deadlines_.silence / 4) peer.heard += asleep;
    if (has_ended(peer.process)) note_gone(peer, false);
    look_at(r);
  }
  return !before && has_failed();
}

void JobWatch::look_at(int rank) {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  const auto now = Clock::now();
  if (peer.is_gone && now - peer.gone > last_words)
    note_failure(RunFailure::lost, rank,
                 text(named(rank), " is lost: ",
                      peer.has_left ? "its program has ended without this launch" : "its process has ended",
                      missed()));
  else if (!peer.has_left && now - peer.heard > deadlines_.silence)
    note_failure(RunFailure::lost, rank,
                 text(named(rank), " is lost: no sign of life for ", seconds(deadlines_.silence),
                      " (stopped, or its machine or network is down)", missed()));
}

void JobWatch::relax() {
  const std::lock_guard lock(mutex_);
  waiting_ = false;
  waiting_in_.clear();
}

void JobWatch::check(int rank, const CallHeader& call) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(waiting_, true)) wait_began_ = Clock::now();
    waiting_in_ = to_string(call);
    if (rank >= 0) check_progress(rank, call);
    if (Clock::now() - last_sign_ > deadlines_.silence)
      note_failure(RunFailure::broken, rank_,
                   text("rank ", rank_,
                        " can send no more messages: its message thread did not come back from MPI for ",
                        seconds(deadlines_.silence), " (in ", waiting_in_, ")"));
  }
  throw_if_failed();
}

void JobWatch::check_progress(int rank, const CallHeader& call) {
  const auto now = Clock::now();
  if (now - wait_began_ < deadlines_.timeout) return;
  std::vector<bool> passed(peers_.size());
  passed[static_cast<size_t>(rank_)] = true;
  int blamed = rank;
  for (int next = rank; next >= 0 && !passed[static_cast<size_t>(next)];) {
    passed[static_cast<size_t>(next)] = true;
    blamed = next;
    if (now - peers_[static_cast<size_t>(next)].moved < deadlines_.timeout) return;
    next = peers_[static_cast<size_t>(next)].waits_for;
  }
  const Peer& peer = peers_[static_cast<size_t>(blamed)];
  const std::string where =
      peer.waiting_in.empty() ? "it waits for nobody" : "it waits in " + peer.waiting_in;
  note_failure(RunFailure::lost, blamed,
               text(named(blamed), " is lost: ", heartbeat_of(peer), " has begun no call for ",
                    seconds(deadlines_.timeout), " (", where, ") while rank ", rank_, " waits for rank ",
                    rank, " in ", call));
}

/// Where the timeout is the shorter deadline, a rank that is stopped passes it first.
std::string JobWatch::heartbeat_of(const Peer& peer) const {
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - peer.heard);
  if (silent < 3 * between_heartbeats(deadlines_)) return "it is alive, but";
  return text("it has given no sign of life for ", seconds(silent), " and");
}

std::chrono::milliseconds between_heartbeats(const Deadlines& deadlines) {
  return std::clamp(deadlines.silence / 10, std::chrono::milliseconds(20), std::chrono::milliseconds(1000));
}

}  // namespace tessera::dist
