#include "dist/pipeline/schedule/schedule.h"

#include <algorithm>

namespace tessera::dist {

int PipelineSchedule::slots() const {
  size_t most = 0;
  for (const auto& row : rows) most = std::max(most, row.size());
  return static_cast<int>(most);
}

int PipelineSchedule::chunk_of(int stage) const {
  const int rank = stage_ranks.at(static_cast<size_t>(stage));
  return static_cast<int>(std::count(stage_ranks.begin(), stage_ranks.begin() + stage, rank));
}

int PipelineSchedule::chunks() const {
  int most = 0;
  for (int stage = 0; stage < stages; ++stage) most = std::max(most, chunk_of(stage) + 1);
  return most;
}

std::vector<PipelineAction> PipelineSchedule::actions(int rank) const {
  std::vector<PipelineAction> all;
  for (const ScheduleCell& cell : rows.at(static_cast<size_t>(rank)))
    if (cell) all.push_back(*cell);
  return all;
}

std::vector<int> looped_stage_ranks(int ranks, int chunks) {
  std::vector<int> map;
  for (int stage = 0; stage < ranks * chunks; ++stage) map.push_back(stage % ranks);
  return map;
}

std::vector<int> v_stage_ranks(int ranks, int chunks) {
  std::vector<int> map;
  for (int stage = 0; stage < ranks * chunks; ++stage)
    map.push_back(stage / ranks % 2 == 0 ? stage % ranks : ranks - 1 - stage % ranks);
  return map;
}

}  // namespace tessera::dist
