#include "dist/train/profile/step_trace.h"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <utility>

#include "tensor/error.h"
#include "tensor/profile/chrome_trace.h"
#include "tensor/profile/op_table.h"

namespace tessera::training {
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

StepRange parse_step_range(const std::string& text, int64_t done, int64_t steps, const std::string& place) {
  if (text.empty()) {
    const int64_t first = std::max(done + 1, std::min(done + 1 + warmup_steps, steps - default_steps + 1));
    return {first, std::min(first + default_steps - 1, steps)};
  }
  const std::optional<StepRange> range = read_range(text);
  require<ConfigError>(range.has_value(), place, " '", text, "': expected A:B, the first and the last step");
  require<ConfigError>(range->first <= range->last, place, " ", text, ": the first step is after the last");
  require<ConfigError>(range->first > done && range->last <= steps, place, " ", text,
                       ": this run takes steps ", done + 1, " to ", steps);
  return *range;
}

StepTrace::StepTrace(std::string path, StepRange range) : path_(std::move(path)), range_(range) {
  if (path_.empty()) return;
  file_.open(path_);
  require<ConfigError>(file_.good(), "trace of steps: cannot open '", path_, "' for writing");
}

void StepTrace::before_step(int64_t step) {
  if (!is_wanted() || step != range_.first) return;
  recording_.emplace(profiler_);
  has_recorded_ = true;
}

void StepTrace::after_step(int64_t step) {
  if (step == range_.last) recording_.reset();
}

std::string StepTrace::describe_missing() const {
  return text("trace of steps ", range_.first, " to ", range_.last, ": the run ended before them; ", path_,
              " has no step");
}

void StepTrace::finish(std::ostream& table) {
  if (!is_wanted()) return;
  recording_.reset();
  write_chrome_trace(profiler_, file_);
  file_.close();
  require<ConfigError>(file_.good(), "trace of steps: cannot write to '", path_, "'");
  if (!has_recorded_) {
    table << describe_missing() << "\n" << std::flush;
    return;
  }
  const OpTable ops = top_ops(profiler_);
  table << "profile of " << ops.steps << (ops.steps == 1 ? " step" : " steps") << ", trace in " << path_
        << "\n"
        << to_string(ops) << std::flush;
}

}  // namespace tessera::training
