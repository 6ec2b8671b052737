#include "dist/train/config/stage_options.h"

#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"

namespace tessera::training {

int data_ranks(const StageOptions& stages, int world_size) {
  if (stages.stages == 0) return world_size;
  require<ConfigError>(stages.stages > 0 && world_size % stages.stages == 0, "pipeline_stages ",
                       stages.stages, ": expected a divisor of the ", world_size, " ranks");
  return world_size / stages.stages;
}

int data_rank(const StageOptions& stages, int rank, int world_size) {
  return rank % data_ranks(stages, world_size);
}

dist::PipelineSchedule step_schedule(const StageOptions& o, int64_t micro_batches) {
  dist::PipelineSchedule schedule;
  if (o.schedule_file.empty()) {
    schedule = dist::make_schedule({.kind = o.schedule,
                                    .ranks = o.stages,
                                    .micro_batches = static_cast<int>(micro_batches),
                                    .chunks = o.chunks});
  } else {
    require<ConfigError>(o.chunks == 0, "pipeline_chunks ", o.chunks, ": the table in '", o.schedule_file,
                         "' has its own");
    schedule = dist::read_schedule_csv(o.schedule_file);
    dist::check_schedule(schedule);
    require<ConfigError>(schedule.ranks() == o.stages && schedule.micro_batches == micro_batches,
                         "schedule '", schedule.name, "': expected a table of ", o.stages, " ranks and ",
                         micro_batches, " micro-batches, got ", schedule.ranks(), " and ",
                         schedule.micro_batches);
  }
  if (o.most_live > 0) dist::check_schedule(schedule, std::vector<int>(schedule.rows.size(), o.most_live));
  return schedule;
}

std::function<dist::PipelineSchedule(int)> step_tables(const StageOptions& o, int64_t micro_batches) {
  if (o.schedule_file.empty() && o.most_live == 0) return {};
  dist::PipelineSchedule of_step = step_schedule(o, micro_batches);
  if (o.schedule_file.empty()) return {};
  return [of_step = std::move(of_step)](int count) {
    return count == of_step.micro_batches ? of_step : dist::gpipe_like(of_step, count);
  };
}

}  // namespace tessera::training
