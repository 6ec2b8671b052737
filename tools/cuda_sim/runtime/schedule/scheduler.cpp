#include "tools/cuda_sim/runtime/schedule/scheduler.h"

#include <algorithm>
#include <utility>

namespace tessera::cuda_sim {

namespace {

thread_local bool inside_host_function = false;

/// Operations from the front that the random order looks at, so that a long queue costs no more.
constexpr int random_window = 64;

}  // namespace

bool is_inside_host_function() {
  return inside_host_function;
}

Scheduler::Scheduler(OperationLog& log, Findings& findings, const Options& options)
    : log_(&log), findings_(&findings), options_(options), random_(options.seed) {}

Operation Scheduler::add(Lock& lock, uint32_t chain, Work work, std::span<const Operation> after) {
  Pending pending;
  for (const Operation operation : after)
    if (!is_done(operation)) pending.after.push_back(operation);
  if (const Operation last = log_->last_of(chain); !is_done(last)) pending.after.push_back(last);
  const Operation number = log_->add(chain, work.name, after);
  pending.work = std::move(work);
  pending.chain = chain;
  if (pending_.empty()) first_ = number;
  pending_.push_back(std::move(pending));
  unfinished_.insert(number);
  announce_change();
  if (options_.order == RunOrder::eager) run_ready(lock);
  if (options_.order == RunOrder::random)
    while (random_() % 3 == 0 && run_random(lock)) {
    }
  return number;
}

bool Scheduler::is_done(Operation operation) const {
  return operation < first_ || operation - first_ >= pending_.size() || at(operation).state == State::done;
}

bool Scheduler::is_ready(Operation operation) const {
  const Pending& pending = at(operation);
  return pending.state == State::waiting &&
         std::ranges::all_of(pending.after, [this](Operation one) { return is_done(one); });
}

void Scheduler::announce_change() {
  ++changes_;
  for (const Operation operation : unfinished_) {
    if (operation - first_ > random_window) break;
    at(operation).is_parked = false;
  }
  changed_.notify_all();
}

bool Scheduler::run(Lock& lock, Operation operation) {
  Pending& pending = at(operation);
  pending.state = State::running;
  bool has_ended = true;
  if (pending.work.is_host_function) {
    lock.unlock();
    inside_host_function = true;
    has_ended = pending.work.run(operation);
    inside_host_function = false;
    lock.lock();
  } else if (pending.work.run) {
    has_ended = pending.work.run(operation);
  }
  if (has_ended) {
    finish(operation);
  } else if (pending.state == State::running) {
    pending.state = State::waiting;
    pending.is_parked = true;
  }
  return has_ended;
}

void Scheduler::finish(Operation operation) {
  if (is_done(operation)) return;
  Pending& pending = at(operation);
  pending.state = State::done;
  const Work ended = std::exchange(pending.work, {});
  unfinished_.erase(operation);
  ++ended_;
  while (!pending_.empty() && pending_.front().state == State::done) {
    pending_.pop_front();
    ++first_;
  }
  announce_change();
}

void Scheduler::run_ready(Lock& lock) {
  // What a host function waits for may be up to the thread that issues here: it runs when a wait needs it.
  for (bool again = true; again;) {
    again = false;
    for (const Operation operation : std::vector<Operation>(unfinished_.begin(), unfinished_.end())) {
      if (is_done(operation) || !is_ready(operation)) continue;
      const Pending& pending = at(operation);
      if (pending.is_parked || pending.work.is_host_function) continue;
      again |= run(lock, operation);
    }
  }
}

bool Scheduler::run_random(Lock& lock) {
  std::vector<Operation> ready;
  int looked_at = 0;
  for (const Operation operation : unfinished_) {
    if (++looked_at > random_window) break;
    if (!is_ready(operation) || at(operation).is_parked || at(operation).work.is_host_function) continue;
    ready.push_back(operation);
  }
  if (ready.empty()) return false;
  run(lock, ready[random_() % ready.size()]);
  return true;
}

std::set<Operation> Scheduler::needed(Operation operation, bool& partner_missing) const {
  std::set<Operation> result;
  std::vector<Operation> open{operation};
  while (!open.empty()) {
    const Operation one = open.back();
    open.pop_back();
    if (is_done(one) || !result.insert(one).second) continue;
    const Pending& pending = at(one);
    open.insert(open.end(), pending.after.begin(), pending.after.end());
    if (!pending.work.partners || pending.state == State::running) continue;
    const Partners partners = pending.work.partners(one);
    open.insert(open.end(), partners.issued.begin(), partners.issued.end());
    partner_missing |= partners.some_not_issued;
  }
  return result;
}

Scheduler::Advance Scheduler::advance(Lock& lock, Operation operation, bool one_step) {
  bool is_blocked = false, has_progress = false;
  for (const Operation one : needed(operation, is_blocked)) {
    if (is_done(one)) continue;
    is_blocked |= at(one).state == State::running;
    if (!is_ready(one)) continue;
    const bool was_parked = at(one).is_parked;
    const bool has_ended = run(lock, one);
    has_progress |= has_ended || !was_parked;
    if (one_step && has_ended) break;
  }
  if (is_done(operation)) return Advance::ended;
  if (has_progress) return Advance::progress;
  return is_blocked ? Advance::blocked : Advance::stuck;
}

bool Scheduler::all_ranks_wait() const {
  const auto me = std::this_thread::get_id();
  return !rank_threads_.empty() && std::ranges::all_of(rank_threads_, [&](std::thread::id id) {
    return id == me || waiting_threads_.contains(id);
  });
}

void Scheduler::wait_for_change(Lock& lock, std::chrono::milliseconds limit) {
  const uint64_t before = changes_;
  const auto me = waiting_threads_.insert(std::this_thread::get_id());
  changed_.wait_for(lock, limit, [&] { return changes_ != before; });
  waiting_threads_.erase(me);
}

bool Scheduler::wait(Lock& lock, Operation operation) {
  using Clock = std::chrono::steady_clock;
  auto blocked_since = Clock::time_point::max();
  uint64_t changes_before = 0;
  while (!is_done(operation)) {
    if (options_.order == RunOrder::random && run_random(lock)) continue;
    const Advance advance_result = advance(lock, operation, false);
    if (advance_result == Advance::ended || advance_result == Advance::progress) continue;
    if (advance_result == Advance::blocked) {
      if (blocked_since == Clock::time_point::max() || changes_ != changes_before) {
        blocked_since = Clock::now();
        changes_before = changes_;
      }
      wait_for_change(lock, std::min(options_.short_patience, options_.patience));
      const auto patience = all_ranks_wait() ? options_.short_patience : options_.patience;
      if (changes_ != changes_before || Clock::now() - blocked_since < patience) continue;
    }
    report_deadlock(operation);
    give_up(operation);
    return false;
  }
  log_->host_waits_for(operation);
  return true;
}

bool Scheduler::wait_for_all(Lock& lock) {
  bool ends = true;
  while (!unfinished_.empty()) ends &= wait(lock, *unfinished_.rbegin());
  return ends;
}

bool Scheduler::poll(Lock& lock, Operation operation) {
  if (is_done(operation)) {
    log_->host_waits_for(operation);
    return true;
  }
  if (options_.order == RunOrder::random) {
    if (random_() % 2 == 0) return false;
    if (run_random(lock)) return false;
  }
  const Advance result = advance(lock, operation, true);
  bool is_deadlock = result == Advance::stuck;
  if (result == Advance::blocked) {
    const auto now = std::chrono::steady_clock::now();
    if (polls_blocked_at_ != changes_) {
      polls_blocked_at_ = changes_;
      polls_blocked_since_ = now;
    }
    is_deadlock = now - polls_blocked_since_ > options_.patience;
    if (!is_deadlock) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
  if (is_deadlock) {
    report_deadlock(operation);
    give_up(operation);
  }
  return false;
}

std::string Scheduler::queues() const {
  std::map<uint32_t, std::vector<Operation>> by_chain;
  for (const Operation operation : unfinished_) by_chain[at(operation).chain].push_back(operation);
  std::string text;
  for (const auto& [chain, operations] : by_chain) {
    text += "\n  " + log_->chain_name(chain) + ":";
    constexpr size_t shown = 5;
    for (size_t i = 0; i < std::min(shown, operations.size()); ++i)
      text += (i == 0 ? " " : ", then ") + at(operations[i]).work.name;
    if (operations.size() > shown) text += ", and " + std::to_string(operations.size() - shown) + " more";
  }
  return text;
}

void Scheduler::report_deadlock(Operation operation) {
  std::set<std::string> elsewhere;
  for (const Operation one : unfinished_)
    if (at(one).work.elsewhere) elsewhere.insert(at(one).work.elsewhere());
  std::string text = "a wait for " + log_->describe(operation) + " can never end; waiting are" + queues();
  for (const std::string& other : elsewhere) text += other;
  findings_->add(Check::deadlock, text, Site{});
}

void Scheduler::give_up(Operation operation) {
  bool ignored = false;
  for (const Operation one : needed(operation, ignored))
    if (!is_done(one) && at(one).state != State::running) finish(one);
  if (!is_done(operation)) finish(operation);
}

void Scheduler::enter_rank_thread() {
  rank_threads_.insert(std::this_thread::get_id());
}

void Scheduler::leave_rank_thread() {
  const auto it = rank_threads_.find(std::this_thread::get_id());
  if (it != rank_threads_.end()) rank_threads_.erase(it);
  announce_change();
}

}  // namespace tessera::cuda_sim
