#include "dist/pipeline/schedule/table.h"

#include <algorithm>

namespace tessera::dist {
namespace {

std::string cell_of(const PipelineSchedule& schedule, const ScheduleCell& cell, bool has_chunks) {
  if (!cell) return ".";
  std::string content(name_of(cell->kind));
  if (has_micro_batch(cell->kind)) content += std::to_string(cell->micro_batch);
  if (has_chunks) content += "." + std::to_string(schedule.chunk_of(cell->stage));
  return content;
}

}  // namespace

std::string schedule_table(const PipelineSchedule& schedule) {
  const bool has_chunks = schedule.chunks() > 1;
  const size_t slots = static_cast<size_t>(schedule.slots());
  std::vector<std::vector<std::string>> rows{{"slot"}};
  for (size_t slot = 0; slot < slots; ++slot) rows[0].push_back(std::to_string(slot));
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    rows.push_back({"rank " + std::to_string(rank)});
    for (const ScheduleCell& cell : schedule.rows[rank])
      rows.back().push_back(cell_of(schedule, cell, has_chunks));
    rows.back().resize(slots + 1, ".");
  }
  std::vector<size_t> widths(slots + 1);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += (i == 0 ? "" : " ") + row[i] + std::string(widths[i] - row[i].size(), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

}  // namespace tessera::dist
