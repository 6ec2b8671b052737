#include "dist/pipeline/schedule/csv.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

std::string_view trimmed(std::string_view content) {
  constexpr std::string_view blanks = " \t\r\"";
  const size_t first = content.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return content.substr(first, content.find_last_not_of(blanks) + 1 - first);
}

/// Takes what is before the next `separator`, or all.
std::string_view take(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

std::vector<ScheduleCell> parse_row(std::string_view line, size_t rank, const std::string& name) {
  std::vector<ScheduleCell> row;
  while (!line.empty()) {
    const std::string_view cell = trimmed(take(line, ','));
    if (cell.empty()) {
      row.emplace_back();
      continue;
    }
    try {
      row.emplace_back(parse_action(cell));
    } catch (const ConfigError& error) {
      throw ConfigError(
          text("schedule '", name, "': rank ", rank, ", slot ", row.size(), ": ", error.what()));
    }
  }
  return row;
}

/// Stages, micro-batches and the rank of each stage, from the cells.
void infer_extents(PipelineSchedule& schedule) {
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const auto& row = schedule.rows[static_cast<size_t>(rank)];
    require<ConfigError>(
        std::any_of(row.begin(), row.end(), [](const ScheduleCell& cell) { return cell.has_value(); }),
        "schedule '", schedule.name, "': rank ", rank, " has no actions");
    for (size_t slot = 0; slot < row.size(); ++slot) {
      if (!row[slot]) continue;
      const auto where = [&] {
        return text("schedule '", schedule.name, "': rank ", rank, ", slot ", slot, " (", *row[slot], ")");
      };
      constexpr int most = 1'000'000;
      if (row[slot]->stage >= most || row[slot]->micro_batch >= most)
        throw ConfigError(text(where(), ": expected stages and micro-batches below ", most));
      const size_t stage = static_cast<size_t>(row[slot]->stage);
      schedule.stages = std::max(schedule.stages, row[slot]->stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, row[slot]->micro_batch + 1);
      schedule.stage_ranks.resize(static_cast<size_t>(schedule.stages), -1);
      int& holder = schedule.stage_ranks[stage];
      if (holder < 0) holder = rank;
      if (holder != rank) throw ConfigError(text(where(), ": stage ", stage, " is on rank ", holder, " too"));
    }
  }
  for (size_t stage = 0; stage < schedule.stage_ranks.size(); ++stage)
    require<ConfigError>(schedule.stage_ranks[stage] >= 0, "schedule '", schedule.name,
                         "': no rank has stage ", stage, ", of ", schedule.stages, " stages");
}

}  // namespace

std::string to_csv(const PipelineSchedule& schedule) {
  std::string content;
  for (const auto& row : schedule.rows) {
    for (size_t slot = 0; slot < row.size(); ++slot)
      content += (slot == 0 ? "" : ",") + (row[slot] ? to_string(*row[slot]) : std::string());
    content += "\n";
  }
  return content;
}

PipelineSchedule parse_schedule_csv(std::string_view content, const std::string& name) {
  PipelineSchedule schedule{.name = name};
  while (!content.empty()) {
    const std::string_view line = take(content, '\n');
    if (!trimmed(line).empty()) schedule.rows.push_back(parse_row(line, schedule.rows.size(), name));
  }
  require<ConfigError>(!schedule.rows.empty(), "schedule '", name,
                       "': expected a line of cells for each rank, got none");
  infer_extents(schedule);
  return schedule;
}

PipelineSchedule read_schedule_csv(const std::string& path) {
  std::error_code error;
  require<ConfigError>(!std::filesystem::is_directory(path, error), "schedule: '", path,
                       "' is a directory: expected a CSV file");
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  require<ConfigError>(file.is_open() && !file.bad(), "schedule: cannot read '", path, "'");
  const auto odd = std::find_if(content.begin(), content.end(), [](char c) {
    return (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n';
  });
  if (odd != content.end())
    throw ConfigError(text("schedule: '", path, "' is no CSV file of actions: byte ", odd - content.begin(),
                           " is ", static_cast<int>(static_cast<unsigned char>(*odd)),
                           ", which no action has"));
  return parse_schedule_csv(content, path);
}

}  // namespace tessera::dist
