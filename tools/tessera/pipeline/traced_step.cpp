#include "tools/tessera/pipeline/traced_step.h"

#include <json/json.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensor/error.h"

namespace tessera::tools {
namespace {

using dist::PipelineAction;

/// An action as often as it ran: begin and end, in milliseconds.
using Runs = std::map<std::string, std::vector<std::pair<double, double>>>;

Json::Value read_trace(const std::string& path) {
  std::ifstream file(path);
  require<ConfigError>(file.is_open(), "trace: cannot read '", path, "'");
  Json::Value trace;
  std::string errors;
  const bool is_json = Json::parseFromStream(Json::CharReaderBuilder(), file, &trace, &errors);
  require<ConfigError>(is_json && trace.isObject() && trace["traceEvents"].isArray(), "trace '", path,
                       "': expected a trace in Chrome's format, got ", is_json ? "other JSON" : "no JSON");
  return trace;
}

/// The time of a trace's first span on the clock of its machine, in milliseconds; nothing for a trace without
/// it.
std::optional<double> clock_begin(const Json::Value& trace) {
  const Json::Value& begin = trace["otherData"]["clock_begin_ns"];
  if (!begin.isString()) return std::nullopt;
  const std::string digits = begin.asString();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return static_cast<double>(value) / 1e6;
}

/// The spans of a trace in rows named "pipeline", by rank. Traces of several processes are aligned by the
/// clock that they share: `first_begin` is that of the first one.
void add_runs(const std::string& path, std::map<int, Runs>& by_rank, std::optional<double>& first_begin) try {
  const Json::Value trace = read_trace(path);
  const std::optional<double> own = clock_begin(trace);
  if (!first_begin) first_begin = own;
  const double shift = own && first_begin ? *own - *first_begin : 0;
  std::set<std::pair<int, int>> rows;
  for (const Json::Value& event : trace["traceEvents"])
    if (event["name"] == "thread_name" && event["args"]["name"] == "pipeline")
      rows.emplace(event["pid"].asInt(), event["tid"].asInt());
  for (const Json::Value& event : trace["traceEvents"])
    if (event["ph"] == "X" && rows.contains({event["pid"].asInt(), event["tid"].asInt()})) {
      const double begin = event["ts"].asDouble() / 1000 + shift;
      const double length = event["dur"].asDouble() / 1000;
      require<ConfigError>(std::isfinite(begin) && length >= 0 && std::isfinite(length), "trace '", path,
                           "': expected spans of a length of 0 or more, got ", event["name"].asString(),
                           " at ", begin, " of ", length, " ms");
      by_rank[event["pid"].asInt()][event["name"].asString()].emplace_back(begin, begin + length);
    }
} catch (const Json::Exception& error) {
  throw ConfigError(
      text("trace '", path, "': expected events of Chrome's format, got another type: ", error.what()));
}

/// By rank of the pipeline: where several ranks of the world have the same stages, the first of them.
std::map<int, Runs> first_column(std::map<int, Runs> by_rank, int ranks) {
  const auto count = static_cast<int>(by_rank.size());
  if (count <= ranks || count % ranks != 0) return by_rank;
  std::map<int, Runs> column;
  int index = 0;
  for (auto& [rank, runs] : by_rank) {
    if (index % (count / ranks) == 0) column[index / (count / ranks)] = std::move(runs);
    ++index;
  }
  return column;
}

/// Whether the name is that of a backward, such as 1B3.
bool is_backward(const std::string& name) {
  const size_t letter = name.find_first_not_of("0123456789");
  return letter != 0 && letter != std::string::npos && letter + 1 < name.size() &&
         (name[letter] == 'B' || name[letter] == 'I') &&
         name.find_first_not_of("0123456789", letter + 1) == std::string::npos;
}

/// Throws ConfigError for a trace of more ranks or of more micro-batches than the schedule's: what it would
/// show is a part of a step.
void require_no_more(const std::map<int, Runs>& by_rank, const std::string& path,
                     const dist::PipelineSchedule& schedule) {
  const auto fail = [&](const std::string& found) {
    throw ConfigError(text("trace '", path, "': expected a run of '", schedule.name, "' with ",
                           schedule.ranks(), " ranks and ", schedule.micro_batches, " micro-batches, got ",
                           found));
  };
  if (std::ssize(by_rank) > schedule.ranks()) fail(text(by_rank.size(), " ranks"));
  for (const auto& [rank, runs] : by_rank) {
    std::set<std::string> expected;
    if (rank >= 0 && rank < schedule.ranks())
      for (const PipelineAction& action : schedule.actions(rank)) expected.insert(to_string(action));
    for (const auto& [name, times] : runs)
      if (is_backward(name) && !expected.contains(name)) fail(text(name, " on rank ", rank));
  }
}

}  // namespace

dist::PipelineTimeline read_traced_step(const std::vector<std::string>& paths,
                                        const dist::PipelineSchedule& schedule) {
  std::map<int, Runs> by_rank;
  std::optional<double> first_begin;
  for (const std::string& path : paths) add_runs(path, by_rank, first_begin);
  by_rank = first_column(std::move(by_rank), schedule.ranks());
  // The number of steps that every rank has whole.
  size_t steps = SIZE_MAX;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const PipelineAction& action : schedule.actions(rank)) {
      if (!is_compute(action.kind)) continue;
      const size_t count = by_rank[rank][to_string(action)].size();
      require<ConfigError>(count > 0, "trace '", paths.front(), "': expected a run of '", schedule.name,
                           "' with ", schedule.ranks(), " ranks and ", schedule.micro_batches,
                           " micro-batches, got none of ", action, " on rank ", rank);
      steps = std::min(steps, count);
    }
  require_no_more(by_rank, paths.front(), schedule);
  dist::PipelineTimeline timeline{.ranks = std::vector<std::vector<dist::TimedAction>>(schedule.rows.size()),
                                  .busy = std::vector<double>(schedule.rows.size())};
  double first = 0;
  bool is_first = true;
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const PipelineAction& action : schedule.actions(rank)) {
      if (!is_compute(action.kind)) continue;
      const auto [begin, end] = by_rank[rank][to_string(action)][steps - 1];
      auto& row = timeline.ranks[static_cast<size_t>(rank)];
      row.push_back({action, row.size(), begin, end});
      timeline.busy[static_cast<size_t>(rank)] += end - begin;
      if (is_first || begin < first) first = begin;
      is_first = false;
    }
  for (auto& row : timeline.ranks)
    for (dist::TimedAction& timed : row) {
      timed.begin -= first;
      timed.end -= first;
      timeline.makespan = std::max(timeline.makespan, timed.end);
    }
  return timeline;
}

}  // namespace tessera::tools
