#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "optim/schedules/schedule.h"

namespace tessera::optim {

/// A schedule that sets the rates of one optimizer, used as PyTorch's schedulers are:
///
///     optim::LRScheduler scheduler(adam, optim::step_decay({.step_size = 10}));
///     for (...) { ...; adam.step(); scheduler.step(); }
///
/// The first step has the schedule's rate of step 0; `step()` sets that of the next. A call after each epoch
/// counts epochs.
///
/// With a list of schedules group i has schedule i, as PyTorch's LambdaLR with a list of functions:
///
///     optim::LRScheduler scheduler(adam, {optim::exponential({.gamma = 0.9}), optim::lambda(factor)});
class LRScheduler {
 public:
  /// Sets the rate of the schedule's position. The optimizer must outlive the scheduler. Throws as
  /// `Schedule::apply`.
  LRScheduler(Optimizer& optimizer, Schedule schedule)
      : LRScheduler(optimizer, std::vector{std::move(schedule)}, false) {}
  /// The same for one schedule a group, at the same position. Throws ConfigError unless there are as many as
  /// groups.
  LRScheduler(Optimizer& optimizer, std::vector<Schedule> schedules)
      : LRScheduler(optimizer, std::move(schedules), true) {}
  /// Sets the rate of the next step.
  void step() { set_position(position() + 1); }
  /// The rate of each group, as set last.
  std::vector<double> get_last_lr() const {
    std::vector<double> rates;
    for (int group = 0; group < optimizer_.group_count(); ++group)
      rates.push_back(optimizer_.lr(group).item());
    return rates;
  }
  /// The number of `step()` calls: what a checkpoint saves.
  int64_t position() const { return schedules_[0].position(); }
  /// Continues at this position, and sets its rate. Throws ValueError for a negative one.
  void set_position(int64_t step) {
    for (Schedule& schedule : schedules_) schedule.set_position(step);
    apply();
  }

 private:
  LRScheduler(Optimizer& optimizer, std::vector<Schedule> schedules, bool per_group)
      : optimizer_(optimizer), schedules_(std::move(schedules)), per_group_(per_group) {
    require<ConfigError>(!per_group_ || std::ssize(schedules_) == optimizer_.group_count(),
                         "LRScheduler: expected a schedule for each of the ", optimizer_.group_count(),
                         " groups of ", optimizer_.name(), ", got ", schedules_.size());
    for (const Schedule& schedule : schedules_)
      require<ConfigError>(schedule.position() == position(),
                           "LRScheduler: expected schedules at one position, got ", position(), " and, of '",
                           schedule.name(), "', ", schedule.position());
    apply();
  }
  void apply() const {
    if (!per_group_) return schedules_[0].apply(optimizer_);
    for (int group = 0; group < static_cast<int>(schedules_.size()); ++group)
      schedules_[static_cast<size_t>(group)].apply(optimizer_, group);
  }

  Optimizer& optimizer_;
  std::vector<Schedule> schedules_;
  const bool per_group_;
};

}  // namespace tessera::optim
