#pragma once  // internal

#include <functional>
#include <vector>

#include "dist/pipeline/schedule/schedule.h"
#include "tensor/error.h"

namespace tessera::dist {

/// When the inputs of actions are there: the output of the stage before, the gradient of the next stage's
/// input, and what the stage itself computed before.
class DataFlow {
 public:
  /// A message between ranks takes `latency`; within a rank it takes no time.
  explicit DataFlow(const PipelineSchedule& schedule, double latency = 0);

  /// The time at which the action's inputs are on its rank; nothing while one of them is not computed.
  std::optional<double> ready(const PipelineAction& action) const;
  /// The first input of the action that is not computed: a forward or a backward.
  PipelineAction missing_input(const PipelineAction& action) const;
  /// The action has ended.
  void finish(const PipelineAction& action, double end);

 private:
  std::vector<PipelineAction> inputs_of(const PipelineAction& action) const;
  double& end_of(const PipelineAction& action);
  double end_of(const PipelineAction& action) const;

  const PipelineSchedule* schedule_;
  double latency_;
  std::vector<double> forward_ends_, gradient_ends_;  // by stage, then micro-batch; negative before the end
};

/// The time of a cell.
struct CellTime {
  double begin = 0, end = 0;
};

/// Where the ranks of a schedule are after all that can run has run.
struct Execution {
  std::vector<std::vector<CellTime>> times;  // by rank, then slot, of the cells that ran
  std::vector<size_t> next;                  // by rank: the first cell that cannot run, or the row's size
  std::vector<std::optional<PipelineAction>> waits_for;  // by rank: what that cell waits for

  bool is_complete() const;
};

/// Runs every row in order, each compute action as soon as its rank and its inputs are there. Messages need
/// no action: SEND and RECV cells take no time here.
Execution execute(const PipelineSchedule& schedule,
                  const std::function<double(const PipelineAction&)>& duration, double latency = 0);
/// The same with one slot for each action: the schedule with each action in the slot where it starts. Throws
/// ConfigError for a deadlock.
PipelineSchedule placed_in_slots(const PipelineSchedule& schedule);

/// "schedule '1f1b': rank 2, slot 5 (2B1)".
std::string cell_text(const PipelineSchedule& schedule, int rank, size_t slot);
/// Throws ConfigError with the cell and the reason.
template <class... Reason>
[[noreturn]] void refuse_cell(const PipelineSchedule& schedule, int rank, size_t slot,
                              const Reason&... reason) {
  throw ConfigError(text(cell_text(schedule, rank, slot), ": ", reason...));
}
/// Throws ConfigError unless the execution is complete: the cells of a chain of ranks that wait for each
/// other.
void require_complete(const PipelineSchedule& schedule, const Execution& execution);

}  // namespace tessera::dist
