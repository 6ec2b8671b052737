#pragma once  // not in tessera.h

#include <vector>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// The largest number of micro-batches, by rank, with activations held at once: from a stage's forward to its
/// backward, or to its backward_weight where the backward is split. Each chunk of a rank counts.
std::vector<int> peak_live_micro_batches(const PipelineSchedule& schedule);
/// The same by stage, for a partition by memory: one of several chunks of a rank has its share.
std::vector<int> peak_live_by_stage(const PipelineSchedule& schedule);

/// Throws ConfigError that names the schedule, rank, slot and action, unless
/// - every stage runs every micro-batch once forward and once backward, or I and then W, on the stage's rank;
/// - in a schedule with SEND and RECV, all messages between ranks are there, each matched by one of the other
///   rank; a send follows the action that computes its value, a receive precedes the one that reads it;
/// - in a schedule with UNSHARD, stages are unsharded where they compute, and resharded as often;
/// - in a schedule with REDUCE_GRAD, one follows the last gradients of each stage;
/// - every action can run, in the order of its row. A send waits for its receive (rendezvous); messages that
///   follow each other in a row are posted together, as one batch;
/// - `most_live`, if not empty, is at least `peak_live_micro_batches` of each rank.
void check_schedule(const PipelineSchedule& schedule, const std::vector<int>& most_live = {});

}  // namespace tessera::dist
