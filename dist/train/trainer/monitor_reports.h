#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

class EngineCore;

/// What a run reports to its monitors: the values of a step are collected, and each monitor gets them in one
/// call. Without monitors nothing is done.
class MonitorReports {
 public:
  /// Those that the next `begin` begins; none on ranks that write nothing.
  void set_monitors(std::vector<std::shared_ptr<Monitor>> monitors) { monitors_ = std::move(monitors); }

  /// Begins all monitors. What a monitor throws leaves this and the following.
  void begin(const RunDescription& run);
  /// A value of a step, not below the steps before; the last one of a name counts. A later step's value, and
  /// `write`, give those of the step to the monitors.
  void add(int64_t step, const std::string& name, double value);
  /// Takes back a value that was added and is not written yet.
  void remove(const std::string& name);
  /// A text of a step, after the values of this step so far.
  void add_text(int64_t step, const std::string& name, const std::string& text);
  /// Gives the collected values to the monitors.
  void write();
  /// `write`, and what was reported is on the disk.
  void flush();
  /// Ends all monitors, after `write`; `step` is the run's last one.
  void end(int64_t step);
  /// After an exception: what was reported so far is written, and the monitors are closed. What they throw is
  /// dropped. Nothing where the run ended by itself.
  void close() noexcept;
  /// Values of a test or validation after the run, which the monitors have as of its last step; nothing where
  /// there was no run.
  void add_after_run(const std::map<std::string, double>& values);

 private:
  std::vector<std::shared_ptr<Monitor>> monitors_;
  RunDescription run_;
  bool is_open_ = false, has_run_ = false;
  int64_t step_ = 0;                 // of `values_`, or the newest
  std::vector<MetricValue> values_;  // of one step, not written yet
};

/// A run as monitors describe it: `run` with the options of the engine, the ends of the run and the number of
/// ranks after its own options, which count where a name is in both. Options that a Trainer does not read are
/// left out.
RunDescription describe(RunDescription run, const EngineCore& engine, int64_t max_epochs, int64_t max_steps,
                        int64_t resume_step);

}  // namespace tessera::training
