#include "optim/schedules/composed.h"

#include <algorithm>

#include "optim/schedules/schedule_checks.h"

namespace tessera::optim {
namespace {

/// The rate of the parts, which have the same or none, and set no options.
std::optional<double> common_rate(const char* name, const std::vector<Schedule>& parts) {
  require<ConfigError>(!parts.empty(), name, ": expected at least one schedule, got none");
  double common = 0.0;
  for (const Schedule& part : parts) {
    require<ConfigError>(part.options_at(0).empty(), name, ": expected schedules of rates alone; '",
                         part.name(), "' sets options too");
    require<ConfigError>(common == 0.0 || part.lr() == 0.0 || part.lr() == common, name,
                         ": expected schedules with the same lr, got ", common, " and, of '", part.name(),
                         "', ", part.lr());
    common = std::max(common, part.lr());
  }
  return common > 0.0 ? std::optional(common) : std::nullopt;
}

}  // namespace

Schedule sequential(std::vector<Schedule> parts, std::vector<int64_t> milestones) {
  const std::optional<double> lr = common_rate("sequential", parts);
  require<ConfigError>(milestones.size() + 1 == parts.size(), "sequential: expected ", parts.size() - 1,
                       " milestones for ", parts.size(), " schedules, got ", milestones.size());
  for (size_t i = 0; i < milestones.size(); ++i)
    require_steps("sequential", "milestones", milestones[i], i == 0 ? 1 : milestones[i - 1] + 1);
  return {"sequential",
          [parts = std::move(parts), starts = std::move(milestones)](int64_t step, double base_lr) {
            const auto next = std::upper_bound(starts.begin(), starts.end(), step);
            const int64_t begin = next == starts.begin() ? 0 : *(next - 1);
            return parts[static_cast<size_t>(next - starts.begin())].at(step - begin, base_lr);
          },
          lr};
}

Schedule chained(std::vector<Schedule> parts) {
  const std::optional<double> lr = common_rate("chained", parts);
  return {"chained",
          [parts = std::move(parts)](int64_t step, double base_lr) {
            for (const Schedule& part : parts) base_lr = part.at(step, base_lr);
            return base_lr;
          },
          lr};
}

}  // namespace tessera::optim
