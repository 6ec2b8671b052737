#pragma once

#include "dist/pipeline/generators/schedule_kind.h"

/// Calls `visit(options)` for every schedule of up to 8 ranks, 8 micro-batches, and 4 chunks where they are
/// its own.
template <class Visit>
void for_all_schedules(const Visit& visit) {
  using namespace tessera::dist;
  for (const ScheduleKind kind : schedule_kinds) {
    const bool has_chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::breadth_first;
    const int fixed = kind == ScheduleKind::zb_v ? 2 : 1;
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int micro_batches = 1; micro_batches <= 8; ++micro_batches)
        for (int chunks = has_chunks ? 1 : fixed; chunks <= (has_chunks ? 4 : fixed); ++chunks)
          visit(ScheduleOptions{
              .kind = kind, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
  }
}
