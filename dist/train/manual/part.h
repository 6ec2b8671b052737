#pragma once  // not in tessera.h

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "optim/optimizer.h"
#include "optim/schedules/reduce_lr_on_plateau.h"
#include "optim/schedules/schedule.h"

namespace tessera::training {

/// What the position of a schedule counts.
enum class ScheduleInterval {
  step,  ///< steps of the optimizer that updated
  epoch  ///< epochs that ended
};

/// optim::ReduceLROnPlateau in a Trainer. It takes the value of each validation, or of each whole epoch for a
/// name that is logged in training, and with `OptimizerSetup::frequency` n that of every n-th one.
/// Validations that are there for the end of the run alone do not count.
struct PlateauSchedule {
  std::string monitor;                           ///< name of a value that the task logs
  optim::ReduceLROnPlateauOptions options = {};  ///< of the reductions
};

/// What a task trains with: an optimizer, and at most one of `schedule`, `group_schedules` and `plateau`.
struct OptimizerSetup {
  std::unique_ptr<optim::Optimizer> optimizer;         ///< of the parameters given, which may be shards
  std::optional<optim::Schedule> schedule = {};        ///< of all groups of the optimizer
  ScheduleInterval interval = ScheduleInterval::step;  ///< of `schedule` or `group_schedules`
  /// Steps or epochs of the run for one step of the schedule, or values for one that `plateau` takes.
  int64_t frequency = 1;
  std::vector<optim::Schedule> group_schedules = {};  ///< one for each group of the optimizer
  std::optional<PlateauSchedule> plateau = {};        ///< rates that follow a logged value
};

/// A part of a task that an optimizer of its own trains, such as the generator of a GAN.
struct Part {
  std::string name;    ///< in checkpoints and errors
  nn::Module& module;  ///< the task's module or one below it; no two parts have a parameter in common
  /// Makes the optimizer and the schedule of the part's parameters.
  std::function<OptimizerSetup(const ParameterList& parameters)> optimizer;
  std::optional<double> gradient_clip = {};  ///< nothing: `TrainerOptions::gradient_clip`
};

}  // namespace tessera::training
