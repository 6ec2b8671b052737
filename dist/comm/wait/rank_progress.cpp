#include "dist/comm/wait/rank_progress.h"

#include <algorithm>

#include "dist/comm/interface/errors.h"
#include "dist/comm/interface/fault_injection.h"
#include "tensor/profile/span.h"

namespace tessera::dist {
namespace {

using Clock = std::chrono::steady_clock;

/// The longest sleep before a rank checks whether the ranks that it waits for are running.
constexpr std::chrono::milliseconds between_checks{50};

}  // namespace

ActiveCall::ActiveCall(RankProgress& progress, CallHeader header)
    : progress_(&progress), header_(std::move(header)), begin_(profiling() ? profile_clock() : 0) {}

bool ActiveCall::poll() {
  if (output_ready()) return true;
  require<CommunicationError>(progress_, header_, ": its communicator was destroyed");
  progress_->poll();
  return output_ready();
}

void ActiveCall::wait_output() {
  if (output_ready()) return;
  require<CommunicationError>(progress_, header_, ": its communicator was destroyed");
  progress_->wait(*this, [this] { return output_ready(); });
}

void ActiveCall::wait() {
  if (output_ready() && inputs_released()) return;
  require<CommunicationError>(progress_, header_, ": its communicator was destroyed");
  progress_->wait(*this, [this] { return output_ready() && inputs_released(); });
}

void ActiveCall::record() {
  recorded_ = true;
  if (!profiling() || begin_ == 0) return;
  record_span({.name = name_of(header_.kind),
               .module = header_.unit.empty() ? nullptr : intern(header_.unit).c_str(),
               .phase = nullptr,
               .stream = "communication",
               .begin = begin_,
               .end = profile_clock(),
               .bytes = header_.bytes,
               .flops = 0,
               .number = -1,
               .kind = SpanKind::collective,
               .nested = false});
}

RankProgress::~RankProgress() {
  for (const auto& call : calls_) call->progress_ = nullptr;
}

void RankProgress::add(std::shared_ptr<ActiveCall> call) {
  throw_if_failed();
  count_operation();
  calls_.push_back(std::move(call));
  advance_all();
}

void RankProgress::poll() {
  advance_all();
  throw_if_failed();
}

void RankProgress::advance_all() {
  size_t kept = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const bool over = calls_[i]->advance();
    if (!calls_[i]->recorded_ && calls_[i]->output_ready()) calls_[i]->record();
    if (over) continue;
    if (kept != i) std::swap(calls_[kept], calls_[i]);
    ++kept;
  }
  calls_.resize(kept);
}

void RankProgress::wait(ActiveCall& call, FunctionRef<bool()> reached) {
  run_comm_hook(CommPoint::wait, call.header());
  count_operation();
  advance_all();
  if (reached()) return;
  const SpanScope span(SpanKind::wait, name_of(call.header().kind));
  auto last_check = Clock::now();
  bool asleep = false;
  for (;;) {
    const uint32_t seen = event_.value();
    advance_all();
    if (reached()) break;
    throw_if_failed();
    if (event_.spin_while(seen, options_.spin)) continue;
    if (call.missing_has_exited()) {
      advance_all();  // what that rank did before it left
      if (reached()) break;
      if (call.missing_has_exited())
        throw RankLostError(text("rank ", call.missing_rank(),
                                 " ended its communication before it completed ", call.header()),
                            call.missing_rank());
    }
    if (options_.publish_waiting) options_.publish_waiting(call.missing_rank());
    asleep = true;
    event_.sleep_while(seen, between_checks);
    if (const auto now = Clock::now(); watch_ && now - last_check >= between_checks) {
      last_check = now;
      watch_->check(call.missing_rank(), call.header());
    }
  }
  if (asleep && options_.publish_waiting) options_.publish_waiting(-1);
  if (watch_) watch_->end_wait();
  count_operation();
}

bool RankProgress::complete_calls() noexcept {
  try {
    for (;;) {
      advance_all();
      const auto call =
          std::find_if(calls_.begin(), calls_.end(), [](const auto& c) { return !c->own_work_done(); });
      if (call == calls_.end()) return true;
      const std::shared_ptr<ActiveCall> held = *call;
      wait(*held, [&] { return held->own_work_done(); });
    }
  } catch (...) {
    return false;
  }
}

std::vector<std::shared_ptr<void>> RankProgress::take_calls() {
  for (const auto& call : calls_) call->progress_ = nullptr;
  std::vector<std::shared_ptr<void>> taken(calls_.begin(), calls_.end());
  calls_.clear();
  return taken;
}

}  // namespace tessera::dist
