#pragma once  // not in tessera.h

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "dist/train/config/field_table.h"
#include "dist/train/launch/fit_ranks.h"
#include "dist/train/trainer/trainer.h"

namespace tessera::training {

/// The options of a Trainer that a command line may set, and the files of a run.
struct TrainerFlags {
  TrainerOptions trainer;             ///< limits, precision, seed, resume
  std::string strategy = "auto";      ///< by name (StrategyChoice); the program's, or another one
  std::string deepspeed_config = {};  ///< file of a DeepSpeedStrategy in place of `strategy`; "": none
  /// SIGINT, SIGTERM, and under a launcher SIGUSR1, end `fit` after the current step, so that callbacks save
  /// (`TrainerOptions::signals`); by default where the program has signals, which are those that hold then.
  bool stop_on_signals = false;
  std::string out = {};               ///< folder of checkpoints (ModelCheckpoint); "": none are written
  int64_t checkpoint_interval = 0;    ///< steps; 0: at the end of each epoch
  int64_t keep = 3;                   ///< newest checkpoints
  std::string monitor = {};           ///< ModelCheckpointOptions::monitor
  int64_t keep_best = 1;              ///< ModelCheckpointOptions::keep_best
  bool async_save = false;            ///< ModelCheckpointOptions::in_background
  std::string metrics = {};           ///< file of JSON lines; "": none
  std::string csv = {};               ///< table of values; "": none
  std::string tensorboard = {};       ///< folder of event files; "": none
  std::string trace = {};             ///< file of the trace of some steps; "": none
  std::string trace_steps = {};       ///< "A:B"; "": ten after five of warm-up
  int64_t steps_per_print = 0;        ///< steps between lines of throughput and memory; 0: none
  bool wall_clock_breakdown = false;  ///< these lines have the times of the parts of a step
};

/// The fields of TrainerFlags by name.
const FieldTable<TrainerFlags>& trainer_fields();

/// The options of a program's Trainer with those that its command line sets: a flag for each field, --config
/// FILE with values by name in JSON, --explain and --help. What files are asked for becomes callbacks and
/// monitors. With --help or --explain the text is written to `out`, and nothing is returned: the program
/// ends; of a launcher's ranks the first one writes. Lines of throughput go to `out` too, which must outlive
/// the Trainer. What a DeepSpeedStrategy asks for beside the flags is added (`add_deepspeed_reports`).
/// Warnings and errors, or what TESSERA_LOGS says, go to stderr, unless the program has a sink. Throws
/// ConfigError naming the argument. A Trainer with these options throws ConfigError, with both places, for a
/// precision, `accumulate` or `gradient_clip` that a flag or a file gives, also as 32, 1 or 0, beside a
/// configuration of DeepSpeed that gives another value.
///
///     int main(int argc, char** argv) {
///       const auto options = training::trainer_arguments({.max_epochs = 5}, argc, argv, std::cout);
///       if (!options) return 0;
///       training::Trainer trainer(*options);
///       trainer.fit(task, data);
///     }
std::optional<TrainerOptions> trainer_arguments(TrainerOptions program, int argc, const char* const* argv,
                                                std::ostream& out);

/// The same for a program in which --explain has the plan of a step after the options: `training::plan` on
/// `TrainerOptions::devices` ranks or those of a launcher. `task` and `data` make what the program trains;
/// they are called with --explain alone. Throws also as `training::plan`.
///
///     const auto options = training::trainer_arguments(
///         {.max_epochs = 5}, argc, argv, std::cout, [] { return std::make_unique<Classifier>(); },
///         [] { return std::make_unique<Points>(); });
std::optional<TrainerOptions> trainer_arguments(TrainerOptions program, int argc, const char* const* argv,
                                                std::ostream& out, const TaskMaker& task,
                                                const DataMaker& data);

/// The same for `training::fit`: the function that makes the options of each rank, with callbacks and
/// monitors of its own. `program` makes those of the program in each call. Throws also ConfigError for a
/// `program` that is missing.
///
///     const auto task = [] { return std::make_unique<Classifier>(); };
///     const auto data = [] { return std::make_unique<Points>(); };
///     const auto options = training::fit_arguments(
///         [] { return training::TrainerOptions{.max_epochs = 5, .devices = 2}; }, argc, argv, std::cout,
///         task, data);
///     if (options) training::fit(*options, task, data);
std::optional<OptionsMaker> fit_arguments(const OptionsMaker& program, int argc, const char* const* argv,
                                          std::ostream& out, const TaskMaker& task, const DataMaker& data);

}  // namespace tessera::training
