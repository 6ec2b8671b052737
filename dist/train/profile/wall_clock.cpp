#include "dist/train/profile/wall_clock.h"

#include <cstdio>
#include <utility>

#include "tensor/error.h"
#include "tensor/profile/span.h"

namespace tessera::training {
namespace {

size_t index_of(StepPart part) {
  return static_cast<size_t>(part);
}

std::string cell(const char* name, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, " | %s: %.2f", name, seconds * 1e3);
  return text;
}

}  // namespace

const char* name_of(StepPart part) {
  constexpr const char* names[] = {"data", "fwd", "bwd", "comm", "step"};
  return names[index_of(part)];
}

double profile_seconds() {
  return static_cast<double>(profile_clock()) * 1e-9;
}

WallClock::WallClock(WallClockOptions options) : o_(std::move(options)) {
  require<ConfigError>(o_.window >= 1, "WallClock: window: expected 1 step or more, got ", o_.window);
  require<ConfigError>(static_cast<bool>(o_.clock), "WallClock: clock: expected a function, got none");
  step_began_ = o_.clock();
}

void WallClock::start(StepPart part) {
  require<ValueError>(!is_running_[index_of(part)], "WallClock::start: ", name_of(part),
                      " is measured already: stop it first");
  is_running_[index_of(part)] = true;
  started_[index_of(part)] = o_.clock();
}

void WallClock::stop(StepPart part) {
  require<ValueError>(is_running_[index_of(part)], "WallClock::stop: ", name_of(part), " was not started");
  end(part);
}

void WallClock::end(StepPart part) {
  if (!std::exchange(is_running_[index_of(part)], false)) return;
  current_.parts[index_of(part)] += o_.clock() - started_[index_of(part)];
}

void WallClock::end_step() {
  for (int i = 0; i < step_parts; ++i)
    require<ValueError>(!is_running_[i], "WallClock::end_step: ", name_of(static_cast<StepPart>(i)),
                        " is still measured: stop it first");
  const double now = o_.clock();
  current_.total = now - std::exchange(step_began_, now);
  window_.push_back(std::exchange(current_, {}));
  if (std::ssize(window_) > o_.window) window_.pop_front();
  ++steps_;
}

StepTimes WallClock::mean() const {
  StepTimes mean;
  if (window_.empty()) return mean;
  for (const StepTimes& step : window_) {
    for (int i = 0; i < step_parts; ++i) mean.parts[i] += step.parts[i];
    mean.total += step.total;
  }
  const auto count = static_cast<double>(window_.size());
  for (double& part : mean.parts) part /= count;
  mean.total /= count;
  return mean;
}

std::string WallClock::breakdown() const {
  const StepTimes times = mean();
  std::string line = "time (ms)";
  for (int i = 0; i < step_parts; ++i) line += cell(name_of(static_cast<StepPart>(i)), times.parts[i]);
  return line + cell("iter", times.total);
}

}  // namespace tessera::training
