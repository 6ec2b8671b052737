#pragma once  // internal

#include <map>
#include <tuple>
#include <vector>

#include "dist/simulate/stage_plan.h"
#include "dist/simulate/task_graph.h"

namespace tessera::dist {

/// An action of a rank in the graph: the tasks in which it computes.
struct ActionTasks {
  PipelineAction action;
  TaskGraph::Task first = 0, last = 0;
  double seconds = 0;  ///< that it computes
};

/// A rank in the graph.
struct RankTasks {
  std::vector<ActionTasks> actions = {};
  double compute = 0;        ///< seconds, with the optimizer's update
  double communication = 0;  ///< seconds
  StepTraffic traffic = {};
  int64_t activation_traffic = 0, tied_traffic = 0;
};

/// The tasks of a step: what each simulated rank computes and sends, in the order of its table.
class StepGraph {
 public:
  /// With `is_free` messages take no time.
  StepGraph(const StepPlan& plan, const SimulationOptions& options, const MachineRates& rates, bool is_free);

  /// The tasks' times.
  std::vector<TaskGraph::Time> run() const { return graph_.run(); }
  /// By simulated rank: of the pipeline where one stands for all columns, else of the world.
  const std::vector<RankTasks>& ranks() const { return ranks_; }

 private:
  /// Where a simulated rank is in the mesh.
  struct Place {
    int pipeline = 0, column = 0, replica = 0, shard = 0;
    double speed = 1;
  };
  struct Lanes {
    int compute = 0, collectives = 0, messages = 0;
  };
  /// What a rank has gathered and computed so far.
  struct Progress {
    std::vector<bool> is_gathered;          // by unit
    TaskGraph::Task last = -1;              // the newest task that computes, or -1
    TaskGraph::Task before_last = -1;       // the one before it
    std::map<std::string, int> calls = {};  // collectives of each dimension
  };
  using CallKey = std::tuple<std::string, int, int>;  // dimension, group, number of the call
  using MessageKey =
      std::tuple<int, bool, int, int>;  // column, is it a gradient, stage that computes, micro-batch

  void add_rank(size_t rank);
  void add_action(size_t rank, const PipelineAction& action);
  void wait_for_message(size_t rank, const PipelineAction& action, TaskGraph::Task task);
  void send(size_t rank, const PipelineAction& action, TaskGraph::Task computed);
  void add_end(size_t rank);
  void reduce_tied(size_t rank);
  void reduce(size_t rank, size_t unit, TaskGraph::Task after);
  TaskGraph::Task gather(size_t rank, size_t unit, TaskGraph::Task after);
  TaskGraph::Task compute(size_t rank, double seconds);
  TaskGraph::Task collective(size_t rank, const std::string& dimension, int group, int64_t bytes,
                             int64_t members, int rounds, TaskGraph::Task after);
  TaskGraph::Task message(const MessageKey& key);
  void use_link(TaskGraph::Task task, size_t rank, const std::string& dimension);
  bool gathers_in(const PipelineAction& action) const;
  bool reduces_in_backward(const PipelineAction& action) const;

  const StepPlan& plan_;
  const SimulationOptions& o_;
  const MachineRates& rates_;
  const bool is_free_;
  const StrategyTraits traits_;
  TaskGraph graph_;
  std::vector<Place> places_;
  std::vector<Lanes> lanes_;
  std::vector<Progress> progress_;
  std::vector<RankTasks> ranks_;
  std::map<CallKey, TaskGraph::Task> calls_;
  std::map<MessageKey, TaskGraph::Task> messages_;
  std::map<std::pair<size_t, std::string>, int> links_;  // by rank and LinkRates::name
};

}  // namespace tessera::dist
