#pragma once  // not in tessera.h

#include <string>
#include <string_view>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// The schedules that can be generated. In all of them a stage runs its micro-batches in ascending order,
/// forward and backward, so gradients are summed in the same order and have the same bits.
enum class ScheduleKind {
  gpipe,          ///< all forwards, then all backwards (Huang et al. 2019)
  one_f_one_b,    ///< one forward, one backward: PipeDream-Flush (Narayanan et al. 2021)
  interleaved,    ///< 1F1B over several chunks of the model on each rank (Narayanan et al. 2021)
  zb_h1,          ///< 1F1B with the gradients of weights in the bubble (Qi et al. 2023, ZB-H1)
  zb_v,           ///< two chunks on each rank in the shape of a V (Qi et al. 2023, ZB-V)
  breadth_first,  ///< all micro-batches through a chunk, then the next chunk (Lamy-Poirier 2022)
};

/// Every kind, in the order of `names_of_schedules`.
inline constexpr ScheduleKind schedule_kinds[] = {ScheduleKind::gpipe,       ScheduleKind::one_f_one_b,
                                                  ScheduleKind::interleaved, ScheduleKind::zb_h1,
                                                  ScheduleKind::zb_v,        ScheduleKind::breadth_first};

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "breadth-first".
std::string_view name_of(ScheduleKind kind);
/// All names, separated by commas.
std::string names_of_schedules();
/// Reads a name. Throws ConfigError that lists the names.
ScheduleKind parse_schedule_kind(std::string_view name);

/// What a schedule is generated from.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::one_f_one_b;  ///< which schedule
  int ranks = 1;                                  ///< S, ranks of the pipeline
  int micro_batches = 1;                          ///< M, micro-batches of a step; any number, M < S too
  int chunks = 0;  ///< v, stages on each rank; 0: 1, or 2 for interleaved, breadth-first and zb-v
  /// Of interleaved: successive micro-batches of a chunk, min(S, M) to M; the last group holds the remainder.
  /// 0: groups that differ by one at most, none smaller than min(S, M), with the smallest bubble for any M.
  int group = 0;
};

/// The schedule, its cells in the slots where they can start if each action takes one slot and messages take
/// none. Throws ConfigError for ranks or micro-batches below 1, chunks other than 1 of gpipe, 1f1b and zb-h1
/// or other than 2 of zb-v, a group outside its range or for another kind, and more than 100 million
/// forwards.
PipelineSchedule make_schedule(const ScheduleOptions& options);
/// All forwards, then all backwards of `micro_batches`, with the stages of another schedule on the same
/// ranks: of what is not a step of that schedule's own micro-batches, such as an evaluation. Throws
/// ConfigError for micro-batches below 1.
PipelineSchedule gpipe_like(const PipelineSchedule& other, int micro_batches);

}  // namespace tessera::dist
