#pragma once  // not in tessera.h

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "dist/launch/launch.h"
#include "dist/train/trainer/trainer.h"

namespace tessera::training {

/// Make what a rank trains. Each rank has its own: ranks may be threads of one process. The options are made
/// for all of them before any starts, with callbacks and monitors that are made in the call.
/// @{
using OptionsMaker = std::function<TrainerOptions()>;
using DataMaker = std::function<std::unique_ptr<DataModule>()>;
/// @}

/// `Trainer::fit` on `TrainerOptions::devices` ranks: those that a launcher started, such as mpirun, or else
/// threads of this process.
///
///     training::fit([] { return training::TrainerOptions{.max_epochs = 5, .strategy = "fsdp", .devices = 4};
///     },
///                   [] { return std::make_unique<Classifier>(); },
///                   [] { return std::make_unique<Points>(); });
///
/// Returns `Trainer::logged` of the first rank, under a launcher of this one. `launch.virtual_ranks` is not
/// used. Throws ConfigError where a launcher started another number of ranks than `devices`, for options with
/// a world, for callbacks and monitors that two ranks share, and for a function that is missing or returns
/// nothing; else as `Trainer::fit` and `dist::launch`.
std::map<std::string, double> fit(const OptionsMaker& options, const TaskMaker& task, const DataMaker& data,
                                  dist::LaunchOptions launch = {});

/// `Trainer::plan` of that run, on the same ranks. Returns that of the first rank, under a launcher of this
/// one. Throws as `fit` and `Trainer::plan`.
StepPlan plan(const OptionsMaker& options, const TaskMaker& task, const DataMaker& data,
              dist::LaunchOptions launch = {});

}  // namespace tessera::training
