#include "dist/pipeline/generators/schedule_kind.h"

#include <algorithm>
#include <cstdint>

#include "dist/pipeline/generators/orders.h"
#include "dist/pipeline/simulation/execution.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

bool takes_chunks(ScheduleKind kind) {
  return kind == ScheduleKind::interleaved || kind == ScheduleKind::breadth_first;
}

/// Throws ConfigError for numbers that would make a table of more cells than are allowed.
void check_size(const ScheduleOptions& o) {
  constexpr int64_t most = 1'000'000, most_pairs = 100'000'000;
  const bool is_small = o.ranks <= most && o.micro_batches <= most && o.chunks <= most;
  // zb_v_order makes the order of 2S - 1 micro-batches at least.
  const int64_t length =
      std::max<int64_t>(o.micro_batches, o.kind == ScheduleKind::zb_v ? 2 * int64_t{o.ranks} : 1);
  require<ConfigError>(is_small && o.ranks * int64_t{o.chunks} * length <= most_pairs, name_of(o.kind),
                       ": expected at most ", most_pairs, " forwards of a step, got ", o.ranks, " ranks, ",
                       o.chunks, " chunks and ", o.micro_batches, " micro-batches");
}

/// `options` with the defaults filled in.
ScheduleOptions checked(ScheduleOptions o) {
  const std::string_view name = name_of(o.kind);
  require<ConfigError>(o.ranks >= 1, name, ": expected 1 or more ranks, got ", o.ranks);
  require<ConfigError>(o.micro_batches >= 1, name, ": expected 1 or more micro-batches, got ",
                       o.micro_batches);
  const bool is_v = o.kind == ScheduleKind::zb_v;
  if (o.chunks == 0) o.chunks = takes_chunks(o.kind) || is_v ? 2 : 1;
  require<ConfigError>(o.chunks >= 1, name, ": expected 1 or more chunks on each rank, got ", o.chunks);
  if (!takes_chunks(o.kind))
    require<ConfigError>(o.chunks == (is_v ? 2 : 1), name, ": each rank has ", is_v ? "2 chunks" : "1 chunk",
                         " of the model, got ", o.chunks, "; interleaved and breadth-first take any number");
  check_size(o);
  const int smallest = std::min(o.ranks, o.micro_batches);
  require<ConfigError>(o.group == 0 || o.kind == ScheduleKind::interleaved, name,
                       ": groups of micro-batches are of interleaved alone, got a group of ", o.group);
  require<ConfigError>(o.group == 0 || (o.group >= smallest && o.group <= o.micro_batches), name,
                       ": expected a group of ", smallest, " to ", o.micro_batches, " micro-batches, got ",
                       o.group);
  return o;
}

std::vector<int> groups_of(const ScheduleOptions& o) {
  if (o.group == 0) return even_groups(o.ranks, o.micro_batches);
  return std::vector<int>(static_cast<size_t>((o.micro_batches + o.group - 1) / o.group), o.group);
}

ActionOrder order_of(const ScheduleOptions& o, int rank) {
  switch (o.kind) {
    case ScheduleKind::gpipe:
      return gpipe_order(o.ranks, o.micro_batches, rank);
    case ScheduleKind::one_f_one_b:
      return one_f_one_b_order(o.ranks, o.micro_batches, rank);
    case ScheduleKind::interleaved:
      return interleaved_order(o.ranks, o.micro_batches, o.chunks, groups_of(o), rank);
    case ScheduleKind::zb_h1:
      return zb_h1_order(o.ranks, o.micro_batches, rank);
    case ScheduleKind::zb_v:
      return zb_v_order(o.ranks, o.micro_batches, rank);
    case ScheduleKind::breadth_first:
      break;
  }
  return breadth_first_order(o.ranks, o.micro_batches, o.chunks, rank);
}

}  // namespace

std::string_view name_of(ScheduleKind kind) {
  constexpr std::string_view names[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "breadth-first"};
  return names[static_cast<size_t>(kind)];
}

std::string names_of_schedules() {
  std::string names;
  for (const ScheduleKind kind : schedule_kinds)
    names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
  return names;
}

ScheduleKind parse_schedule_kind(std::string_view name) {
  for (const ScheduleKind kind : schedule_kinds)
    if (name_of(kind) == name) return kind;
  throw ConfigError(text("pipeline schedule '", name, "': expected one of ", names_of_schedules()));
}

PipelineSchedule make_schedule(const ScheduleOptions& options) {
  const ScheduleOptions o = checked(options);
  PipelineSchedule schedule{.name = std::string(name_of(o.kind)),
                            .stages = o.ranks * o.chunks,
                            .micro_batches = o.micro_batches,
                            .stage_ranks = o.kind == ScheduleKind::zb_v
                                               ? v_stage_ranks(o.ranks, o.chunks)
                                               : looped_stage_ranks(o.ranks, o.chunks),
                            .rows = {}};
  for (int rank = 0; rank < o.ranks; ++rank) {
    const ActionOrder order = order_of(o, rank);
    schedule.rows.emplace_back(order.begin(), order.end());
  }
  return placed_in_slots(schedule);
}

PipelineSchedule gpipe_like(const PipelineSchedule& other, int micro_batches) {
  require<ConfigError>(micro_batches >= 1, "schedule '", other.name,
                       "': expected 1 or more micro-batches, got ", micro_batches);
  PipelineSchedule schedule{.name = text("all forwards first, stages of ", other.name),
                            .stages = other.stages,
                            .micro_batches = micro_batches,
                            .stage_ranks = other.stage_ranks,
                            .rows = std::vector<std::vector<ScheduleCell>>(other.rows.size())};
  const auto add = [&](ActionKind kind, int stage, int m) {
    schedule.rows[static_cast<size_t>(other.stage_ranks[static_cast<size_t>(stage)])].emplace_back(
        PipelineAction{kind, stage, m});
  };
  // One order of all actions, of which each rank takes its own: no cycle of waiting ranks can form.
  for (int m = 0; m < micro_batches; ++m)
    for (int stage = 0; stage < other.stages; ++stage) add(ActionKind::forward, stage, m);
  for (int m = 0; m < micro_batches; ++m)
    for (int stage = other.stages; stage-- > 0;) add(ActionKind::backward, stage, m);
  return placed_in_slots(schedule);
}

}  // namespace tessera::dist
