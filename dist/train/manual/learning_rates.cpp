#include "dist/train/manual/learning_rates.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tensor/error.h"

namespace tessera::training {
namespace {

std::string place_of(const std::string& part) {
  return part.empty() ? "Task::configure_optimizers" : text("Task::configure_parts: part '", part, "'");
}

/// The name under which a checkpoint keeps a value.
std::string state_name(const std::string& part, const char* name) {
  return text("trainer.plateau.", part, part.empty() ? "" : ".", name);
}

/// The shortest text that is read back as the same double.
std::string number_text(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

/// The numbers of a text, with a space after each.
std::vector<double> numbers_of(const std::string& words, const std::string& name) {
  std::vector<double> numbers;
  const char* at = words.data();
  const char* const end = at + words.size();
  while (at != end) {
    double number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    require<CheckpointError>(error == std::errc() && after != end && *after == ' ', name,
                             ": expected numbers, got '", words, "'");
    numbers.push_back(number);
    at = after + 1;
  }
  return numbers;
}

std::string names_of(const std::map<std::string, double>& first,
                     const std::map<std::string, double>& second) {
  std::map<std::string, double> all = first;
  all.insert(second.begin(), second.end());
  std::string names;
  for (const auto& [name, value] : all) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "nothing" : names;
}

}  // namespace

void LearningRates::add(const std::string& part, EngineCore& engine, OptimizerSetup setup) {
  const bool has_schedule = setup.schedule || !setup.group_schedules.empty();
  const int given =
      (setup.schedule ? 1 : 0) + (setup.group_schedules.empty() ? 0 : 1) + (setup.plateau ? 1 : 0);
  require<ConfigError>(given <= 1, place_of(part),
                       ": expected one of schedule, group_schedules and plateau, got ", given);
  require<ConfigError>(has_schedule || setup.interval == ScheduleInterval::step, place_of(part),
                       ": interval epoch: expected a schedule or group_schedules, got ",
                       setup.plateau ? "plateau" : "none");
  require<ConfigError>(setup.frequency >= 1, place_of(part), ": frequency ", setup.frequency,
                       ": expected 1 or more");
  require<ConfigError>(setup.frequency == 1 || given == 1, place_of(part), ": frequency ", setup.frequency,
                       ": expected a schedule, group_schedules or plateau, got none");
  Rule& rule = rules_.emplace_back(
      Rule{.part = part, .engine = &engine, .interval = setup.interval, .frequency = setup.frequency});
  optim::Optimizer& optimizer = engine.optimizer();
  if (setup.plateau) {
    require<ConfigError>(!setup.plateau->monitor.empty(), place_of(part),
                         ": plateau: expected a monitor, the name of a logged value; got none");
    rule.monitor = setup.plateau->monitor;
    rule.plateau.emplace(optimizer, setup.plateau->options);
  } else if (!setup.group_schedules.empty()) {
    rule.first = setup.group_schedules.front();
    rule.scheduler.emplace(optimizer, std::move(setup.group_schedules));
  } else if (setup.schedule && (setup.interval == ScheduleInterval::epoch || setup.frequency > 1)) {
    rule.first = setup.schedule;
    rule.scheduler.emplace(optimizer, std::move(*setup.schedule));
  } else if (setup.schedule) {
    engine.set_schedule(std::move(*setup.schedule));
  }
  rule.start = rule.first ? rule.first->position() : 0;
}

bool LearningRates::counts_epochs() const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const Rule& rule) { return rule.interval == ScheduleInterval::epoch; });
}

bool LearningRates::has_monitor() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.plateau.has_value(); });
}

const optim::Schedule* LearningRates::first_schedule() const {
  if (rules_.empty()) return nullptr;
  const std::optional<optim::Schedule>& own = rules_.front().engine->schedule();
  const std::optional<optim::Schedule>& first = own ? own : rules_.front().first;
  return first ? &*first : nullptr;
}

void LearningRates::begin_epoch(int64_t epoch) {
  for (Rule& rule : rules_)
    if (rule.scheduler && rule.interval == ScheduleInterval::epoch) {
      rule.first->set_position(rule.start + epoch / rule.frequency);
      rule.scheduler->set_position(rule.start + epoch / rule.frequency);
    }
}

void LearningRates::end_step() {
  for (Rule& rule : rules_) {
    if (!rule.scheduler || rule.interval != ScheduleInterval::step) continue;
    const int64_t updates = rule.engine->global_steps() - rule.engine->skipped_steps();
    const int64_t position = rule.start + updates / rule.frequency;
    if (position == rule.scheduler->position()) continue;
    rule.first->set_position(position);
    rule.scheduler->set_position(position);
  }
}

void LearningRates::end_epoch(const std::map<std::string, double>& values, bool has_validation) {
  for (Rule& rule : rules_) {
    if (!rule.plateau) continue;
    const auto found = values.find(rule.monitor);
    require<ConfigError>(found != values.end() || has_validation, place_of(rule.part),
                         ": plateau: expected '", rule.monitor,
                         "' among what the task logs of an epoch, got ", names_of(values, {}));
    if (found != values.end()) take(rule, found->second);
  }
}

void LearningRates::take(Rule& rule, double value) {
  if (++rule.values < rule.frequency) return;
  rule.values = 0;
  rule.plateau->step(value);
}

void LearningRates::end_validation(const std::map<std::string, double>& values,
                                   const std::map<std::string, double>& training) {
  for (Rule& rule : rules_) {
    if (!rule.plateau) continue;
    const auto found = values.find(rule.monitor);
    const bool is_of_training = training.contains(rule.monitor);
    require<ConfigError>(found == values.end() || !is_of_training, place_of(rule.part),
                         ": plateau: expected a name that is logged in training or in validation, got '",
                         rule.monitor, "' in both");
    // A run that resumes with a validation has no batch of training yet.
    require<ConfigError>(found != values.end() || is_of_training || training.empty(), place_of(rule.part),
                         ": plateau: expected '", rule.monitor, "' among what the task logs, got ",
                         names_of(values, training));
    if (found != values.end()) take(rule, found->second);
  }
}

void LearningRates::save(std::map<std::string, std::string>& saved) const {
  for (const Rule& rule : rules_) {
    if (!rule.plateau) continue;
    const optim::ReduceLROnPlateauState state = rule.plateau->state();
    std::string rates;
    for (const double lr : state.lr) rates += number_text(lr) + " ";
    saved[state_name(rule.part, "best")] = number_text(state.best) + " ";
    saved[state_name(rule.part, "counts")] = text(state.num_bad_epochs, " ", state.cooldown_counter, " ");
    saved[state_name(rule.part, "rates")] = rates;
    if (rule.frequency > 1) saved[state_name(rule.part, "values")] = text(rule.values, " ");
  }
}

void LearningRates::load(const std::map<std::string, std::string>& saved) {
  end_step();
  for (Rule& rule : rules_) {
    if (!rule.plateau || !saved.contains(state_name(rule.part, "best"))) continue;
    const auto read = [&](const char* name) {
      const std::string key = state_name(rule.part, name);
      const auto found = saved.find(key);
      require<CheckpointError>(found != saved.end(), "'", key, "' is missing");
      return numbers_of(found->second, key);
    };
    const std::vector<double> best = read("best"), counts = read("counts");
    require<CheckpointError>(best.size() == 1 && counts.size() == 2, state_name(rule.part, "counts"),
                             ": expected 1 best value and 2 counts, got ", best.size(), " and ",
                             counts.size());
    rule.plateau->load_state({.best = best[0],
                              .num_bad_epochs = static_cast<int64_t>(counts[0]),
                              .cooldown_counter = static_cast<int64_t>(counts[1]),
                              .lr = read("rates")});
    if (!saved.contains(state_name(rule.part, "values"))) continue;
    const std::vector<double> values = read("values");
    require<CheckpointError>(values.size() == 1, state_name(rule.part, "values"), ": expected 1 count, got ",
                             values.size());
    rule.values = static_cast<int64_t>(values[0]);
  }
}

}  // namespace tessera::training
