#include "autograd/debug/backward_reports.h"

#include <atomic>

namespace tessera {
namespace {
std::atomic<uint64_t> next_backward{1};
thread_local uint64_t running = 0;
thread_local BackwardObserver* observers = nullptr;
thread_local int depth = 0;
thread_local std::vector<std::function<void()>> end_callbacks;
}  // namespace

BackwardObserver::BackwardObserver(BackwardStartHook hook) : hook_(std::move(hook)), outer_(observers) {
  observers = this;
}

BackwardObserver::~BackwardObserver() {
  for (BackwardObserver** link = &observers; *link; link = &(*link)->outer_)
    if (*link == this) {
      *link = outer_;
      return;
    }
}

bool backward_is_running() {
  return depth > 0;
}

bool backward_is_nested() {
  return depth > 1;
}

uint64_t current_backward() {
  return running;
}

bool backward_is_observed() {
  return observers != nullptr;
}

void notify_backward_start(std::span<const Variable> leaves) {
  for (BackwardObserver* observer = observers; observer; observer = observer->outer_) observer->hook_(leaves);
}

void at_backward_end(std::function<void()> callback) {
  require<AutogradError>(depth > 0, "at_backward_end: no backward is running in this thread");
  end_callbacks.push_back(std::move(callback));
}

BackwardInProgress::BackwardInProgress() : outer_(running) {
  running = next_backward.fetch_add(1, std::memory_order_relaxed);
  ++depth;
}

void BackwardInProgress::finish() {
  if (depth > 1) return;
  for (size_t i = 0; i < end_callbacks.size(); ++i) {
    const auto callback = std::move(end_callbacks[i]);  // may queue further ones
    callback();
  }
}

BackwardInProgress::~BackwardInProgress() {
  running = outer_;
  if (--depth == 0) end_callbacks.clear();
}

}  // namespace tessera
