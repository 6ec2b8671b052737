#pragma once  // internal

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/train/engine/engine_core.h"
#include "dist/train/manual/part.h"
#include "optim/schedules/lr_scheduler.h"
#include "optim/schedules/reduce_lr_on_plateau.h"

namespace tessera::training {

/// The learning rates of the optimizers of a fit. A schedule of steps for all groups is the engine's own
/// (`EngineCore::set_schedule`); here are those that count epochs or have a frequency, those of single
/// groups, and ReduceLROnPlateau. Positions are functions of the engine's steps and of the epoch, so only the
/// last has a state that checkpoints keep.
class LearningRates {
 public:
  /// From here on the rates of the engine's optimizer are those of `setup`. `part` is its name in errors and
  /// checkpoints; "": there is one optimizer. The engine must outlive this. Throws ConfigError for more than
  /// one of `schedule`, `group_schedules` and `plateau`, an interval or a frequency without a schedule, a
  /// frequency below 1, a monitor without a name, and as LRScheduler and ReduceLROnPlateau.
  void add(const std::string& part, EngineCore& engine, OptimizerSetup setup);

  /// Whether a schedule counts epochs, and whether a value is monitored.
  /// @{
  bool counts_epochs() const;
  bool has_monitor() const;
  /// @}
  /// The schedule of the first optimizer, of its first group; null without one.
  const optim::Schedule* first_schedule() const;
  /// Steps or epochs of the run for one step of it.
  int64_t first_frequency() const { return rules_.empty() ? 1 : rules_.front().frequency; }

  /// Sets the rates of an epoch, from 0.
  void begin_epoch(int64_t epoch);
  /// Sets the rates of the next step; after each step of an engine.
  void end_step();
  /// Takes the epoch's values of training, after its last batch. `has_validation`: other values may be those
  /// of validations. Throws ConfigError, naming monitor and values, for one that is not among them.
  void end_epoch(const std::map<std::string, double>& values, bool has_validation);
  /// Takes the values of a validation; `training` has the names that the epoch logged so far. Throws
  /// ConfigError for a monitor that is in none of both, or in both.
  void end_validation(const std::map<std::string, double>& values,
                      const std::map<std::string, double>& training);

  /// The state as text, added to what a checkpoint keeps, and back, with the engines at their steps of the
  /// checkpoint; without a state there nothing changes. `load` throws CheckpointError for another text.
  /// @{
  void save(std::map<std::string, std::string>& saved) const;
  void load(const std::map<std::string, std::string>& saved);
  /// @}

 private:
  struct Rule {
    std::string part;
    EngineCore* engine;
    ScheduleInterval interval;
    int64_t frequency;
    std::optional<optim::Schedule> first = {};  // of `scheduler`
    std::optional<optim::LRScheduler> scheduler = {};
    int64_t start = 0;  // position of the first step or epoch
    std::string monitor = {};
    std::optional<optim::ReduceLROnPlateau> plateau = {};
    int64_t values = 0;  // of the monitor, since `plateau` took the last one
  };
  static void take(Rule& rule, double value);

  std::vector<Rule> rules_;
};

}  // namespace tessera::training
