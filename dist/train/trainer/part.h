#pragma once  // not in tessera.h

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "nn/module.h"
#include "optim/optimizer.h"
#include "optim/schedules/schedule.h"

namespace tessera::training {

/// What a task trains with.
struct OptimizerSetup {
  std::unique_ptr<optim::Optimizer> optimizer;   ///< of the parameters given, which may be shards
  std::optional<optim::Schedule> schedule = {};  ///< advanced after each step of the optimizer
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
