#include "optim/schedules/schedule.h"

#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {
namespace {

/// The rates of a schedule with the rate `lr`, in proportion for groups with another rate. Where there is no
/// `lr`, the rate is the same for every group.
Schedule::Rate in_proportion(std::function<double(int64_t)> rate, double lr) {
  return [rate = std::move(rate), lr](int64_t step, double base_lr) {
    return base_lr == lr || lr == 0.0 ? rate(step) : rate(step) * (base_lr / lr);
  };
}

}  // namespace

Schedule::Schedule(std::string name, std::function<double(int64_t step)> rate, double lr)
    : Schedule(std::move(name), in_proportion(std::move(rate), lr), lr) {}

double Schedule::at(int64_t step) const {
  require<ConfigError>(lr_.has_value(), "schedule '", name_,
                       "' has no lr of its own: set the option lr, or call at(step, base_lr)");
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a step of at least 0, got ", step);
  return rate_(step, *lr_);
}

double Schedule::at(int64_t step, double base_lr) const {
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a step of at least 0, got ", step);
  require<ConfigError>(!lr_ || *lr_ > 0.0, "schedule '", name_,
                       "' has no lr above 0 of which its rates are multiples");
  return rate_(step, base_lr);
}

std::vector<NamedOption> Schedule::options_at(int64_t step) const {
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a step of at least 0, got ", step);
  std::vector<NamedOption> values;
  for (const Option& option : options_) values.push_back({option.name, option.value(step)});
  return values;
}

void Schedule::apply(Optimizer& optimizer) const {
  if (lr_ && optimizer.has_one_base_lr()) {
    optimizer.set_lr(at(position_));
  } else {
    require<ConfigError>(
        !lr_ || *lr_ > 0.0, "schedule '", name_, "': the groups of ", optimizer.name(),
        " have different rates, and the schedule has no lr above 0 to scale them by; set its lr, "
        "or apply it to each group");
    for (int group = 0; group < optimizer.group_count(); ++group)
      optimizer.set_lr(group, at(position_, optimizer.base_lr(group)));
  }
  for (int group = 0; group < optimizer.group_count(); ++group) apply_options(optimizer, group);
}

void Schedule::apply(Optimizer& optimizer, int group) const {
  optimizer.set_lr(group, lr_ ? at(position_) : at(position_, optimizer.base_lr(group)));
  apply_options(optimizer, group);
}

void Schedule::apply_options(Optimizer& optimizer, int group) const {
  const std::vector<NamedOption> values = options_at(position_);
  for (const NamedOption& value : values)
    if (!optimizer.option(group, value.name)) return;
  for (const NamedOption& value : values) optimizer.set_option(group, value.name, value.value);
}

void Schedule::set_position(int64_t step) {
  require<ValueError>(step >= 0, "schedule '", name_, "': expected a position of at least 0, got ", step);
  position_ = step;
}

Schedule lambda(double lr, std::function<double(int64_t)> factor, std::string name) {
  require_rate("lambda", "lr", lr);
  require<ConfigError>(static_cast<bool>(factor), "lambda: expected a function of the step, got none");
  return {std::move(name), [lr, factor = std::move(factor)](int64_t step) { return lr * factor(step); }, lr};
}

Schedule lambda(std::function<double(int64_t)> factor, std::string name) {
  require<ConfigError>(static_cast<bool>(factor), "lambda: expected a function of the step, got none");
  return {std::move(name),
          [factor = std::move(factor)](int64_t step, double lr) { return lr * factor(step); }, std::nullopt};
}

}  // namespace tessera::optim
