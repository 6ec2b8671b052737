#include "dist/train/trainer/monitor_reports.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "dist/train/config/training_fields.h"
#include "dist/train/engine/engine_core.h"

namespace tessera::training {

void MonitorReports::begin(const RunDescription& run) {
  run_ = run;
  values_.clear();
  step_ = std::max<int64_t>(run.resume_step, 0);
  is_open_ = has_run_ = true;
  for (const auto& monitor : monitors_) monitor->begin(run);
}

void MonitorReports::add(int64_t step, const std::string& name, double value) {
  if (!is_open_) return;
  if (step != step_) write();
  step_ = step;
  const auto found = std::find_if(values_.begin(), values_.end(),
                                  [&](const MetricValue& each) { return each.name == name; });
  if (found != values_.end())
    found->value = value;
  else
    values_.push_back({name, value});
}

void MonitorReports::remove(const std::string& name) {
  std::erase_if(values_, [&](const MetricValue& each) { return each.name == name; });
}

void MonitorReports::add_text(int64_t step, const std::string& name, const std::string& text) {
  if (!is_open_) return;
  write();
  step_ = step;
  for (const auto& monitor : monitors_) monitor->text(step, name, text);
}

void MonitorReports::write() {
  const std::vector<MetricValue> values = std::exchange(values_, {});
  if (!is_open_ || values.empty()) return;
  for (const auto& monitor : monitors_) monitor->scalars(step_, values);
}

void MonitorReports::flush() {
  if (!is_open_) return;
  write();
  for (const auto& monitor : monitors_) monitor->flush();
}

void MonitorReports::end(int64_t step) {
  write();
  step_ = step;
  for (const auto& monitor : monitors_) monitor->end();
  is_open_ = false;
}

void MonitorReports::close() noexcept {
  if (!std::exchange(is_open_, false)) return;
  const std::vector<MetricValue> values = std::exchange(values_, {});
  for (const auto& monitor : monitors_) {
    // The exception that ended the run is the one to be seen; each monitor is closed.
    try {
      if (!values.empty()) monitor->scalars(step_, values);
    } catch (const std::exception&) {
    }
    try {
      monitor->close();
    } catch (const std::exception&) {
    }
  }
}

void MonitorReports::add_after_run(const std::map<std::string, double>& values) {
  if (!has_run_) return;
  const int64_t step = step_;
  RunDescription run = run_;
  run.resume_step = step;
  begin(run);
  for (const auto& [name, value] : values) add(step, name, value);
  end(step);
}

RunDescription describe(RunDescription run, const EngineCore& engine, int64_t max_epochs, int64_t max_steps,
                        int64_t resume_step) {
  run.resume_step = resume_step;
  const auto add = [&](const std::string& name, const std::string& value) {
    const bool is_there = std::any_of(run.configuration.begin(), run.configuration.end(),
                                      [&](const auto& option) { return option.first == name; });
    if (!is_there) run.configuration.emplace_back(name, value);
  };
  add("max_epochs", std::to_string(max_epochs));
  TrainingConfig config = engine.config();
  config.max_steps = max_steps;  // as given: the engine's may follow from the epochs
  for (const FieldValue& field : Resolved<TrainingConfig>(training_fields(), config).values())
    add(field.info.name, field.value);
  add("ranks", std::to_string(engine.world_size()));
  return run;
}

}  // namespace tessera::training
