#include "dist/simulate/stage_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "dist/pipeline/simulation/check.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

void check_options(const ModelProfile& model, const SimulationOptions& o, const MachineRates& rates) {
  rates.validate();
  require<ConfigError>(o.stages >= 1 && o.replicas >= 1 && o.shards >= 1 && o.micro_batches >= 1,
                       "simulation: expected at least 1 stage, replica, shard and micro-batch, got ",
                       o.stages, ", ", o.replicas, ", ", o.shards, " and ", o.micro_batches);
  require<ConfigError>(o.replicas == 1 || traits_of(o.strategy).replicates,
                       "simulation: expected 1 replica of ", to_string(o.strategy), ", got ", o.replicas,
                       "; ", names_of_strategies(true), " have several");
  require<ConfigError>(rates.speeds.empty() || std::ssize(rates.speeds) == o.ranks(),
                       "simulation: expected speeds of ", o.ranks(), " ranks, got ", rates.speeds.size());
  require<ConfigError>(o.stages <= std::ssize(model.layers()), "simulation: expected at most ",
                       model.layers().size(), " stages, as many as layers, got ", o.stages);
}

PipelineSchedule table_of(const SimulationOptions& o) {
  if (!o.table)
    return make_schedule(
        {.kind = o.schedule, .ranks = o.stages, .micro_batches = o.micro_batches, .chunks = o.chunks});
  require<ConfigError>(o.table->ranks() == o.stages && o.table->micro_batches == o.micro_batches,
                       "simulation: schedule '", o.table->name, "': expected ", o.stages, " ranks and ",
                       o.micro_batches, " micro-batches, got ", o.table->ranks(), " and ",
                       o.table->micro_batches);
  check_schedule(*o.table);
  return *o.table;
}

/// Seconds of a pass, as measured or by the rates.
double seconds_of(const LayerPass& pass, bool is_measured, const MachineRates& rates) {
  if (is_measured) return pass.seconds;
  return static_cast<double>(pass.flops) / rates.flops_per_second +
         static_cast<double>(pass.bytes) / rates.memory_bytes_per_second;
}

/// Sets the times of a stage's layers. Recomputation takes the part of each forward that its FLOPs are of all
/// forwards of the stage.
void set_times(PlannedStage& stage, const ModelProfile& model, int64_t first, const MachineRates& rates,
               bool is_checkpointed) {
  int64_t forward = 0, backward = 0, input = 0;
  for (size_t i = 0; i < stage.layers.size(); ++i) {
    const LayerProfile& layer = model.layers()[static_cast<size_t>(first) + i];
    forward += layer.forward.flops;
    backward += layer.backward.flops;
    input += layer.backward_input.flops;
  }
  const auto part = [&](int64_t with, int64_t without) {
    if (forward == 0) return is_checkpointed ? 1.0 : 0.0;
    return std::max(0.0, static_cast<double>(with - without) / static_cast<double>(forward));
  };
  // Without a gradient to compute I does nothing, and W the whole backward.
  const nn::LayerValues& inputs = model.values_before(first);
  stage.has_input_gradient = std::any_of(inputs.begin(), inputs.end(),
                                         [](const Variable& v) { return v.defined() && v.requires_grad(); });
  const double again = part(stage.profile.backward_flops, backward),
               again_input = part(stage.profile.backward_input_flops, input);
  for (size_t i = 0; i < stage.layers.size(); ++i) {
    const LayerProfile& layer = model.layers()[static_cast<size_t>(first) + i];
    const auto seconds = [&](const LayerPass& pass) { return seconds_of(pass, model.has_seconds(), rates); };
    PlannedLayer& planned = stage.layers[i];
    planned.forward = seconds(layer.forward);
    planned.backward = seconds(layer.backward) + again * planned.forward;
    planned.backward_input = seconds(layer.backward_input) + again_input * planned.forward;
    planned.backward_weight = seconds(layer.backward_weight);
    if (stage.has_input_gradient) continue;
    planned.backward_input = 0;
    planned.backward_weight = planned.backward;
  }
}

/// Units of a rank, the root first, and the unit of each of its layers.
std::vector<UnitSizes> units_of(const ModelProfile& model, const SimulationOptions& o, StepPlan& plan,
                                PlannedRank& rank) {
  std::vector<UnitSizes> units{{.name = "root"}};
  std::set<const VariableImpl*> seen;
  for (const int s : rank.stages) {
    PlannedStage& stage = plan.stages[static_cast<size_t>(s)];
    for (size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerProfile& layer =
          model.layers()[static_cast<size_t>(plan.boundaries[static_cast<size_t>(s)]) + i];
      if (!o.unit_kind.empty() && layer.kind == o.unit_kind) {
        stage.layers[i].unit = units.size();
        units.push_back({.name = layer.name});
      }
      for (const ParameterProfile& parameter : layer.parameters) {
        if (!seen.insert(parameter.identity).second) continue;
        if (parameter.is_trained) stage.trained += parameter.elements;
        units[stage.layers[i].unit].parameters.push_back(
            {parameter.elements, parameter.dtype, parameter.is_trained});
        if (parameter.is_trained) rank.parameters += parameter.elements;
      }
    }
  }
  return units;
}

std::vector<TiedParameter> tied_of(const ModelProfile& model, const StepPlan& plan,
                                   const SimulationOptions& o) {
  std::map<const VariableImpl*, TiedParameter> readers;
  std::vector<const VariableImpl*> order;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (int64_t i = plan.boundaries[s]; i < plan.boundaries[s + 1]; ++i)
      for (const ParameterProfile& parameter : model.layers()[static_cast<size_t>(i)].parameters) {
        if (!parameter.is_trained) continue;
        TiedParameter& tied = readers[parameter.identity];
        if (tied.ranks.empty()) order.push_back(parameter.identity);
        // In mixed precision gradients are added up in f32.
        tied.bytes = parameter.elements * size_of(o.compute == f32 ? parameter.dtype : f32);
        if (std::find(tied.ranks.begin(), tied.ranks.end(), plan.stages[s].rank) == tied.ranks.end())
          tied.ranks.push_back(plan.stages[s].rank);
      }
  std::vector<TiedParameter> result;
  for (const VariableImpl* identity : order)
    if (readers[identity].ranks.size() > 1) result.push_back(readers[identity]);
  return result;
}

}  // namespace

StepPlan plan_stages(ModelProfile& model, const SimulationOptions& o, const MachineRates& rates) {
  check_options(model, o, rates);
  StepPlan plan{.schedule = table_of(o), .boundaries = {}, .stages = {}, .ranks = {}, .tied = {}};
  std::vector<nn::LayerSpec> specs;  // of names and kinds alone, for the methods of partition
  for (const LayerProfile& layer : model.layers()) specs.push_back({.name = layer.name, .kind = layer.kind});
  plan.boundaries = partition_layers(specs, model.costs(), o.partition, plan.schedule.stages,
                                     peak_live_by_stage(plan.schedule));
  plan.is_pipeline = o.is_pipeline || plan.schedule.stages > 1;
  plan.ranks.resize(static_cast<size_t>(o.stages));
  for (int s = 0; s < plan.schedule.stages; ++s) {
    const auto index = static_cast<size_t>(s);
    const int64_t first = plan.boundaries[index], end = plan.boundaries[index + 1];
    PlannedStage& stage = plan.stages.emplace_back();
    stage.rank = plan.schedule.stage_ranks[index];
    stage.layers.resize(static_cast<size_t>(end - first));
    stage.profile = model.stage(first, end, o.checkpointing, o.kept);
    set_times(stage, model, first, rates, o.checkpointing.interval > 0 || !o.kept.empty());
    plan.ranks[static_cast<size_t>(stage.rank)].stages.push_back(s);
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const bool has_next = s + 1 < plan.stages.size();
    if (has_next && plan.stages[s + 1].rank != plan.stages[s].rank)
      plan.stages[s].sent = plan.stages[s + 1].profile.received;
    if (s > 0 && plan.stages[s - 1].rank != plan.stages[s].rank)
      plan.stages[s].sent_back = plan.stages[s - 1].profile.received_back;
  }
  for (PlannedRank& rank : plan.ranks)
    // In a pipeline gradients stay whole until the end of the step, as with several micro-batches.
    rank.estimate =
        estimate(units_of(model, o, plan, rank),
                 {.strategy = o.strategy,
                  .shards = o.shards,
                  .replicas = o.replicas,
                  .compute = o.compute,
                  .reduce = o.reduce,
                  .backward_prefetch = o.backward_prefetch,
                  .micro_batches = plan.is_pipeline ? std::max(o.micro_batches, 2) : o.micro_batches,
                  .optimizer_bytes = o.optimizer_bytes});
  plan.tied = tied_of(model, plan, o);
  return plan;
}

RankPeak peak_of_actions(const StepPlan& plan, int rank, const PipelineSchedule& with_messages,
                         int64_t gradient_bytes, FirstGradients first_gradients) {
  using enum ActionKind;
  const auto rank_of = [&](int stage) { return plan.stages[static_cast<size_t>(stage)].rank; };
  int64_t trained = 0;
  for (const int s : plan.ranks[static_cast<size_t>(rank)].stages)
    trained += plan.stages[static_cast<size_t>(s)].trained;
  std::set<int> has_gradients;
  int64_t now = 0, gradients = 0, on_its_way = 0;
  RankPeak peak;
  const auto look = [&](int64_t more = 0) {
    peak.activations = std::max(peak.activations, now + more);
    if (now + more + gradients <= peak.activations_then + peak.gradients_then) return;
    peak.activations_then = now + more;
    peak.gradients_then = gradients;
  };
  const auto gradients_of = [&](int s) -> int64_t {
    if (trained == 0) return 0;
    const double share =
        static_cast<double>(plan.stages[static_cast<size_t>(s)].trained) / static_cast<double>(trained);
    return std::llround(share * static_cast<double>(gradient_bytes));
  };
  const auto look_at_backward = [&](int s, int64_t more, int64_t more_and_gradients) {
    const bool of_rank = first_gradients == FirstGradients::of_rank;
    if (!has_gradients.insert(of_rank ? 0 : s).second) return look(more);
    const int64_t own = of_rank ? gradient_bytes : gradients_of(s);
    peak.activations = std::max(peak.activations, now + more);
    const bool by_layer = first_gradients == FirstGradients::by_layer;
    const int64_t all = now + (by_layer ? more_and_gradients : more + own);
    gradients += own;
    if (all + gradients - own <= peak.activations_then + peak.gradients_then) return;
    peak.activations_then = std::max<int64_t>(0, all - own);
    peak.gradients_then = gradients;
  };
  for (const PipelineAction& action : with_messages.actions(rank)) {
    const PlannedStage& stage = plan.stages[static_cast<size_t>(action.stage)];
    const StageProfile& p = stage.profile;
    // What came by a message is a part of the action's own bytes, as is what a stage of the same rank kept.
    const bool was_received = action.stage > 0 && rank_of(action.stage - 1) != rank;
    const bool was_received_back =
        action.stage + 1 < std::ssize(plan.stages) && rank_of(action.stage + 1) != rank;
    switch (action.kind) {
      case recv_forward:
        now += p.received;
        break;
      case recv_backward:
        now += p.received_back;
        break;
      case forward:
        if (was_received) now -= p.received;
        look(p.forward_peak);
        now += p.kept;
        break;
      case backward:
        if (was_received_back) now -= p.received_back;
        now -= p.kept;
        look_at_backward(action.stage, p.backward_peak, p.first_backward_peak);
        now += stage.sent_back;
        break;
      case backward_input:
        if (was_received_back) now -= p.received_back;
        now -= p.kept;
        look(p.backward_input_peak);
        now += p.kept_after_input + stage.sent_back;
        break;
      case backward_weight:
        now -= p.kept_after_input;
        look_at_backward(action.stage, p.backward_weight_peak, p.first_backward_weight_peak);
        break;
      case send_backward:
        on_its_way += stage.sent_back;
        break;
      case send_forward:
      case unshard:
      case reshard:
      case reduce_grad:
        break;
    }
    look();
    if (is_compute(action.kind)) now -= std::exchange(on_its_way, 0);
  }
  return peak;
}

}  // namespace tessera::dist
