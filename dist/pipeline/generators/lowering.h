#pragma once  // not in tessera.h

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// The schedule with a SEND and a RECV for every value that goes from a rank to another. After each slot,
/// every rank has one batch: what it computed in that slot goes out, what others computed for it comes in.
/// Both sides of a message are in the batch of the same slot, so batches cannot wait for each other in a
/// cycle, whatever the transport buffers. Throws ConfigError for a schedule that is wrong by `check_schedule`
/// or that has messages.
PipelineSchedule with_messages(const PipelineSchedule& schedule);

/// How long parameters stay gathered in a pipeline of sharded stages.
enum class UnshardScope {
  step,    ///< from a stage's first action to its last: shard_grad_op
  action,  ///< for each action: full_shard
};
/// The schedule with an UNSHARD and a RESHARD of each stage around its actions, and a REDUCE_GRAD after its
/// last gradients. Its slots state no time. Throws ConfigError for a schedule that is wrong by
/// `check_schedule` or that has such actions.
PipelineSchedule with_sharding(const PipelineSchedule& schedule, UnshardScope scope);

}  // namespace tessera::dist
