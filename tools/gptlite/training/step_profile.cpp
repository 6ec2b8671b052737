#include "tools/gptlite/training/step_profile.h"

#include <algorithm>
#include <charconv>
#include <ostream>

#include "tensor/error.h"
#include "tensor/profile/chrome_trace.h"
#include "tensor/profile/op_table.h"

namespace tessera::gptlite {
namespace {

constexpr int64_t warmup_steps = 5, default_steps = 10;

/// Parses "A:B"; empty for any other text.
std::optional<StepRange> read_range(const std::string& text) {
  StepRange range;
  const char *at = text.data(), *end = at + text.size();
  auto [colon, first_error] = std::from_chars(at, end, range.first);
  if (first_error != std::errc() || colon == end || *colon != ':') return std::nullopt;
  const auto [rest, last_error] = std::from_chars(colon + 1, end, range.last);
  if (last_error != std::errc() || rest != end) return std::nullopt;
  return range;
}

}  // namespace

StepRange profiled_steps(const TrainOptions& options, int64_t done, int64_t steps) {
  if (options.profile_steps.empty()) {
    const int64_t first = std::max(done + 1, std::min(done + 1 + warmup_steps, steps - default_steps + 1));
    return {first, std::min(first + default_steps - 1, steps)};
  }
  const std::optional<StepRange> range = read_range(options.profile_steps);
  require<ConfigError>(range.has_value(), "--profile-steps '", options.profile_steps,
                       "': expected A:B, the first and the last step");
  require<ConfigError>(range->first <= range->last, "--profile-steps ", options.profile_steps,
                       ": the first step is after the last");
  require<ConfigError>(range->first > done && range->last <= steps, "--profile-steps ", options.profile_steps,
                       ": this run takes steps ", done + 1, " to ", steps);
  return *range;
}

StepProfile::StepProfile(const TrainOptions& options, const std::string& path, int64_t done, int64_t steps)
    : path_(path) {
  require<ConfigError>(!options.profile.empty() || options.profile_steps.empty(),
                       "--profile-steps needs `--profile FILE` to write the trace to");
  if (path_.empty()) return;
  range_ = profiled_steps(options, done, steps);
  file_.open(path_);
  require<ConfigError>(file_.good(), "--profile: cannot open '", path_, "' for writing");
}

void StepProfile::before_step(int64_t step) {
  if (is_wanted() && step == range_.first) recording_.emplace(profiler_);
}

void StepProfile::after_step(int64_t step) {
  if (step == range_.last) recording_.reset();
}

void StepProfile::finish(std::ostream& out) {
  if (!is_wanted()) return;
  recording_.reset();
  write_chrome_trace(profiler_, file_);
  file_.close();
  require<ConfigError>(file_.good(), "--profile: cannot write to '", path_, "'");
  const OpTable table = top_ops(profiler_);
  out << "profile of " << table.steps << (table.steps == 1 ? " step" : " steps") << ", trace in " << path_
      << "\n"
      << to_string(table) << std::flush;
}

}  // namespace tessera::gptlite
