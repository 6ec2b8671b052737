// A step as tasks on lanes: each rank has one lane to compute on, one for collectives and one for messages;
// where messages take the rank's own time, all three are one.

#include "dist/simulate/step_graph.h"

#include <algorithm>

namespace tessera::dist {

using enum ActionKind;
using Task = TaskGraph::Task;

namespace {

bool is_backward(ActionKind kind) {
  return kind == backward || kind == backward_input || kind == backward_weight;
}

double seconds_of(const PlannedLayer& layer, ActionKind kind) {
  switch (kind) {
    case forward:
      return layer.forward;
    case backward:
      return layer.backward;
    case backward_input:
      return layer.backward_input;
    default:
      return layer.backward_weight;
  }
}

}  // namespace

StepGraph::StepGraph(const StepPlan& plan, const SimulationOptions& options, const MachineRates& rates,
                     bool is_free)
    : plan_(plan), o_(options), rates_(rates), is_free_(is_free), traits_(traits_of(options.strategy)) {
  const int columns = rates.speeds.empty() ? 1 : o_.replicas * o_.shards;
  for (int p = 0; p < o_.stages; ++p)
    for (int column = 0; column < columns; ++column) {
      const size_t rank = places_.size();
      places_.push_back({.pipeline = p,
                         .column = column,
                         .replica = column / o_.shards,
                         .shard = column % o_.shards,
                         .speed = rates.speeds.empty() ? 1 : rates.speeds[rank]});
      Lanes lanes{.compute = graph_.add_lane()};
      lanes.collectives = rates.overlaps ? graph_.add_lane() : lanes.compute;
      lanes.messages = rates.overlaps ? graph_.add_lane() : lanes.compute;
      lanes_.push_back(lanes);
      progress_.push_back(
          {.is_gathered = std::vector<bool>(plan.ranks[static_cast<size_t>(p)].estimate.units.size())});
    }
  ranks_.resize(places_.size());
  for (size_t rank = 0; rank < places_.size(); ++rank) add_rank(rank);
}

void StepGraph::add_rank(size_t rank) {
  for (const PipelineAction& action : plan_.schedule.actions(places_[rank].pipeline))
    if (is_compute(action.kind)) add_action(rank, action);
  add_end(rank);
}

/// Whether the units of an action's layers are gathered for it.
bool StepGraph::gathers_in(const PipelineAction& action) const {
  return traits_.shards_parameters && o_.shards > 1 &&
         (traits_.frees_after_forward || action.kind == forward);
}

/// Whether gradients are complete after this action, and reduced while it runs.
bool StepGraph::reduces_in_backward(const PipelineAction& action) const {
  return !plan_.is_pipeline && traits_.reduces_in_backward && action.micro_batch == o_.micro_batches - 1 &&
         (action.kind == backward || action.kind == backward_weight);
}

Task StepGraph::compute(size_t rank, double seconds) {
  seconds /= places_[rank].speed;
  const Task task = graph_.add(seconds);
  graph_.put(task, lanes_[rank].compute);
  ranks_[rank].compute += seconds;
  progress_[rank].before_last = progress_[rank].last;
  progress_[rank].last = task;
  return task;
}

void StepGraph::add_action(size_t rank, const PipelineAction& action) {
  const PlannedStage& stage = plan_.stages[static_cast<size_t>(action.stage)];
  const bool gathers = gathers_in(action), is_back = is_backward(action.kind);
  Progress& progress = progress_[rank];
  ActionTasks tasks{.action = action};
  bool has_tasks = false;
  // Between gathers, and reductions, layers follow each other without a task of their own.
  double pending = 0;
  std::vector<Task> waits;
  const auto flush = [&] {
    const Task task = compute(rank, pending);
    tasks.seconds += pending / places_[rank].speed;
    pending = 0;
    for (const Task before : waits)
      if (before >= 0) graph_.wait_for(task, before);
    waits.clear();
    if (!has_tasks) {
      tasks.first = task;
      wait_for_message(rank, action, task);
    }
    has_tasks = true;
    tasks.last = task;
    return task;
  };
  const auto need = [&](size_t unit) {
    const bool stays = !traits_.frees_after_forward || (unit == 0 && !plan_.is_pipeline);
    if (!gathers || (stays && progress.is_gathered[unit])) return;
    progress.is_gathered[unit] = stays;
    if (pending > 0) flush();
    // Backward gathers a unit before the one that it follows computes; forward when it is needed.
    const bool is_ahead = is_back && o_.backward_prefetch == BackwardPrefetch::pre;
    waits.push_back(gather(rank, unit, is_ahead ? progress.before_last : progress.last));
  };
  need(0);
  for (size_t i = 0; i < stage.layers.size(); ++i) {
    const PlannedLayer& layer = stage.layers[is_back ? stage.layers.size() - 1 - i : i];
    const bool computes = action.kind != backward_input || stage.has_input_gradient;
    if (layer.unit > 0 && computes) need(layer.unit);
    pending += seconds_of(layer, action.kind);
    if (gathers && layer.unit > 0) flush();
    if (reduces_in_backward(action) && layer.unit > 0) reduce(rank, layer.unit, flush());
  }
  if (pending > 0 || !has_tasks) flush();
  if (reduces_in_backward(action)) reduce(rank, 0, tasks.last);
  if (action.kind == backward && !plan_.is_pipeline) progress.is_gathered[0] = false;
  send(rank, action, tasks.last);
  ranks_[rank].actions.push_back(tasks);
}

Task StepGraph::message(const MessageKey& key) {
  const auto known = messages_.find(key);
  if (known != messages_.end()) return known->second;
  const auto& [column, is_gradient, stage, micro_batch] = key;
  const PlannedStage& sender = plan_.stages[static_cast<size_t>(stage)];
  const int64_t bytes = is_gradient ? sender.sent_back : sender.sent;
  const double seconds =
      is_free_ ? 0 : static_cast<double>(bytes) / rates_.along("pipeline").bytes_per_second;
  return messages_.emplace(key, graph_.add(seconds)).first->second;
}

/// What a rank sends along dimensions of one link shares its rate.
void StepGraph::use_link(Task task, size_t rank, const std::string& dimension) {
  const std::string& name = rates_.along(dimension).name;
  if (name.empty() || is_free_) return;
  const auto [link, is_new] = links_.try_emplace({rank, name}, 0);
  if (is_new) link->second = graph_.add_link();
  graph_.use(task, link->second);
}

/// The input of a forward, or the gradient of a backward, from another rank.
void StepGraph::wait_for_message(size_t rank, const PipelineAction& action, Task task) {
  const auto other_rank = [&](int stage) {
    return stage >= 0 && stage < plan_.schedule.stages &&
           plan_.stages[static_cast<size_t>(stage)].rank != places_[rank].pipeline;
  };
  const bool is_gradient = action.kind != forward;
  const int from = is_gradient ? action.stage + 1 : action.stage - 1;
  if (action.kind == backward_weight || !other_rank(from)) return;
  const double latency = is_free_ ? 0 : rates_.along("pipeline").latency;
  graph_.wait_for(task, message({places_[rank].column, is_gradient, from, action.micro_batch}), latency);
}

void StepGraph::send(size_t rank, const PipelineAction& action, Task computed) {
  const bool is_gradient = action.kind != forward;
  const int to = is_gradient ? action.stage - 1 : action.stage + 1;
  if (action.kind == backward_weight || to < 0 || to >= plan_.schedule.stages) return;
  if (plan_.stages[static_cast<size_t>(to)].rank == places_[rank].pipeline) return;
  const Task task = message({places_[rank].column, is_gradient, action.stage, action.micro_batch});
  graph_.put(task, lanes_[rank].messages);
  graph_.wait_for(task, computed);
  use_link(task, rank, "pipeline");
  const PlannedStage& stage = plan_.stages[static_cast<size_t>(action.stage)];
  const int64_t bytes = is_gradient ? stage.sent_back : stage.sent;
  ranks_[rank].activation_traffic += bytes;
  if (!is_free_)
    ranks_[rank].communication += static_cast<double>(bytes) / rates_.along("pipeline").bytes_per_second;
}

/// The next call of a group along a dimension: `rounds` times what a gather of `bytes` takes. All ranks of
/// the group that are simulated share its task.
Task StepGraph::collective(size_t rank, const std::string& dimension, int group, int64_t bytes,
                           int64_t members, int rounds, Task after) {
  const double seconds = is_free_ ? 0 : rounds * collective_seconds(rates_.along(dimension), bytes, members);
  const CallKey key{dimension, group, progress_[rank].calls[dimension]++};
  const auto [known, is_new] = calls_.try_emplace(key, 0);
  if (is_new) known->second = graph_.add(seconds);
  graph_.put(known->second, lanes_[rank].collectives);
  use_link(known->second, rank, dimension);
  if (after >= 0) graph_.wait_for(known->second, after);
  ranks_[rank].communication += seconds;
  return known->second;
}

Task StepGraph::gather(size_t rank, size_t unit, Task after) {
  const Place& place = places_[rank];
  const UnitEstimate& of = plan_.ranks[static_cast<size_t>(place.pipeline)].estimate.units[unit];
  const int64_t bytes = of.padded * size_of(o_.compute);
  if (bytes == 0) return after;
  ranks_[rank].traffic.parameters += bytes / o_.shards * (o_.shards - 1);
  return collective(rank, "shard", place.pipeline * o_.replicas + place.replica, bytes, o_.shards, 1, after);
}

void StepGraph::reduce(size_t rank, size_t unit, Task after) {
  const Place& place = places_[rank];
  const UnitEstimate& of = plan_.ranks[static_cast<size_t>(place.pipeline)].estimate.units[unit];
  const int64_t bytes = of.padded_trained * size_of(o_.reduce);
  const int rounds = traits_.shards_optimizer ? 1 : 2;
  if (bytes == 0) return;
  if (o_.shards > 1) {
    ranks_[rank].traffic.gradients += bytes * rounds / o_.shards * (o_.shards - 1);
    after = collective(rank, "shard", place.pipeline * o_.replicas + place.replica, bytes, o_.shards, rounds,
                       after);
  }
  if (o_.replicas > 1) {
    ranks_[rank].traffic.gradients += 2 * (bytes / o_.shards / o_.replicas * (o_.replicas - 1));
    collective(rank, "replica", place.pipeline * o_.shards + place.shard, bytes / o_.shards, o_.replicas, 2,
               after);
  }
}

void StepGraph::reduce_tied(size_t rank) {
  const Place& place = places_[rank];
  for (size_t i = 0; i < plan_.tied.size(); ++i) {
    const TiedParameter& tied = plan_.tied[i];
    if (std::find(tied.ranks.begin(), tied.ranks.end(), place.pipeline) == tied.ranks.end()) continue;
    const auto members = std::ssize(tied.ranks);
    ranks_[rank].tied_traffic += 2 * (tied.bytes / members * (members - 1));
    const double seconds =
        is_free_ ? 0 : 2 * collective_seconds(rates_.along("pipeline"), tied.bytes, members);
    const auto [known, is_new] = calls_.try_emplace({"tied", place.column, static_cast<int>(i)}, 0);
    if (is_new) known->second = graph_.add(seconds);
    graph_.put(known->second, lanes_[rank].collectives);
    use_link(known->second, rank, "pipeline");
    graph_.wait_for(known->second, progress_[rank].last);
    ranks_[rank].communication += seconds;
  }
}

/// After the last action: reductions that did not run in backward, the update, and the gather of updated
/// parameters.
void StepGraph::add_end(size_t rank) {
  const PlannedRank& of = plan_.ranks[static_cast<size_t>(places_[rank].pipeline)];
  reduce_tied(rank);
  const bool is_reduced = !plan_.is_pipeline && traits_.reduces_in_backward;
  if (!is_reduced)
    for (size_t unit = of.estimate.units.size(); unit-- > 0;) reduce(rank, unit, progress_[rank].last);
  // The end of all collectives: a task without time on their lane.
  const Task ended = graph_.add(0);
  graph_.put(ended, lanes_[rank].collectives);
  int64_t held = 0;
  for (const UnitEstimate& unit : of.estimate.units) held += unit.held_trained;
  const Task update =
      compute(rank, static_cast<double>(held * o_.update_bytes) / rates_.memory_bytes_per_second);
  graph_.wait_for(update, ended);
  if (traits_.shards_optimizer && !traits_.shards_parameters && o_.shards > 1)
    for (size_t unit = 0; unit < of.estimate.units.size(); ++unit) gather(rank, unit, update);
}

}  // namespace tessera::dist
