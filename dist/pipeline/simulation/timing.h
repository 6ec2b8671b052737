#pragma once  // not in tessera.h

#include <vector>

#include "dist/pipeline/schedule/schedule.h"

namespace tessera::dist {

/// Times of a stage for one micro-batch, in any unit. A whole backward takes both halves: 2 by default, twice
/// the forward.
struct StageTimes {
  double forward = 1;          ///< F
  double backward_input = 1;   ///< I: about a forward, half of the products of a backward
  double backward_weight = 1;  ///< W: the other half

  /// B.
  double backward() const { return backward_input + backward_weight; }
};

/// What the actions of a schedule take.
struct PipelineTimes {
  std::vector<StageTimes> stages = {};  ///< by stage of the model; one: of every stage; none: the defaults
  double latency = 0;  ///< of a message between ranks, from the end of its action to the start of the next
};

/// An action in time.
struct TimedAction {
  PipelineAction action;  ///< what is done
  size_t slot = 0;        ///< its slot in the schedule
  double begin = 0;       ///< since the start of the step
  double end = 0;         ///< begin and its duration
};

/// The execution of a schedule in time.
struct PipelineTimeline {
  std::vector<std::vector<TimedAction>> ranks;  ///< the actions of each rank in order
  double makespan = 0;                          ///< the end of the last action
  std::vector<double> busy;                     ///< of each rank: the time in which it computes

  /// The bubble: the fraction of the time of all ranks in which they compute nothing, 0 to 1.
  double bubble() const;
  /// The time that the bubble adds to a perfect pipeline's, where all ranks compute always: bubble/(1 -
  /// bubble).
  double bubble_over_ideal() const;
};

/// Runs a schedule: each action begins when its rank has ended the action before and its inputs have arrived.
/// Messages take the latency and no time of a rank; UNSHARD, RESHARD and REDUCE_GRAD take no time. Throws
/// ConfigError for a schedule that cannot run, for a number of stages other than the schedule's, and for
/// negative or not finite times.
PipelineTimeline simulate(const PipelineSchedule& schedule, const PipelineTimes& times = {});

}  // namespace tessera::dist
