#pragma once  // internal

#include <vector>

#include "dist/pipeline/simulation/cell_index.h"
#include "dist/pipeline/simulation/execution.h"

/// Messages between the ranks of a pipeline: SEND_F of a stage with RECV_F of the next, SEND_B of a stage
/// with RECV_B of the one before.
namespace tessera::dist {

/// The receive of a send, the send of a receive; its stage may be one that the model does not have.
PipelineAction counterpart(const PipelineAction& message);
bool has_messages(const PipelineSchedule& schedule);
/// Throws ConfigError for a message that is not matched, not needed, missing, or in the wrong order with the
/// action that computes or reads its value.
void check_messages(const PipelineSchedule& schedule, const CellIndex& cells);
/// Runs every row in order, where a batch of messages ends when the counterpart of each has been posted.
Execution execute_rendezvous(const PipelineSchedule& schedule);

}  // namespace tessera::dist
