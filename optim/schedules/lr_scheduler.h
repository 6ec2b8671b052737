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
class LRScheduler {
 public:
  /// Sets the rate of the schedule's position. The optimizer must outlive the scheduler. Throws as
  /// `Schedule::apply`.
  LRScheduler(Optimizer& optimizer, Schedule schedule)
      : optimizer_(optimizer), schedule_(std::move(schedule)) {
    schedule_.apply(optimizer_);
  }
  /// Sets the rate of the next step.
  void step() { set_position(schedule_.position() + 1); }
  /// The rate of each group, as set last.
  std::vector<double> get_last_lr() const {
    std::vector<double> rates;
    for (int group = 0; group < optimizer_.group_count(); ++group)
      rates.push_back(optimizer_.lr(group).item());
    return rates;
  }
  /// The number of `step()` calls: what a checkpoint saves.
  int64_t position() const { return schedule_.position(); }
  /// Continues at this position, and sets its rate. Throws ValueError for a negative one.
  void set_position(int64_t step) {
    schedule_.set_position(step);
    schedule_.apply(optimizer_);
  }

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
};

}  // namespace tessera::optim
