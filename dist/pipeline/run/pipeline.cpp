#include "dist/pipeline/run/pipeline.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/grad_mode.h"
#include "dist/checkpoint/model_state.h"
#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/run/interpreter.h"
#include "dist/pipeline/run/stage_reducer.h"
#include "dist/pipeline/simulation/check.h"
#include "nn/sequence/checkpoint_layers.h"
#include "nn/sequence/hold.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera::dist {
namespace {

constexpr const char* dimension = "pipeline";

/// The most micro-batches on each stage, which a partition by memory counts. One of several chunks of a rank
/// has its share.
std::vector<int> live_by_stage(const PipelineSchedule& schedule) {
  const std::vector<int> by_rank = peak_live_micro_batches(schedule);
  std::vector<int> live;
  for (const int rank : schedule.stage_ranks)
    live.push_back((by_rank[static_cast<size_t>(rank)] + schedule.chunks() - 1) / schedule.chunks());
  return live;
}

void require_known_dimensions(const Mesh& mesh) {
  require<ConfigError>(mesh.has(dimension), "Pipeline: expected a mesh with a dimension 'pipeline'");
  for (const MeshDimension& each : mesh.dimensions())
    require<ConfigError>(
        each.size == 1 || each.name == dimension || each.name == "replica" || each.name == "shard",
        "Pipeline: expected a mesh of 'pipeline', 'replica' and 'shard', got a dimension '", each.name,
        "' of ", each.size, " ranks");
}

/// The ranks of a mesh along these of its dimensions.
std::vector<int> members_of(const Mesh& mesh, const char* name) {
  if (!mesh.has(name)) return {};
  const std::span<const int> members = mesh.group(name)->members();
  return {members.begin(), members.end()};
}

}  // namespace

Mesh pipeline_mesh(World& world, int stages) {
  require<ConfigError>(stages >= 1 && world.size() % stages == 0, "pipeline: ", stages,
                       " stages: expected a divisor of the ", world.size(), " ranks");
  return Mesh(world, {{dimension, stages}, {"shard", -1}});
}

Pipeline::Pipeline(nn::Module& model, nn::LayeredModel layers, PipelineOptions options)
    : model_(model), layers_(std::move(layers)), options_(std::move(options)) {
  require_known_dimensions(options_.mesh);
  nn::require_whole(model);
  nn::require_all_layers(model, layers_);
  ranks_ = options_.mesh.group(dimension);
  if (options_.costs.empty()) options_.costs = layer_costs(layers_);
  const PipelineSchedule example = make_table(options_.micro_batches);
  stage_ranks_ = example.stage_ranks;
  boundaries_ = partition_layers(layers_.layers, options_.costs, options_.partition, example.stages,
                                 live_by_stage(example));
  is_first_ = stage_ranks_.front() == ranks_->rank();
  is_last_ = stage_ranks_.back() == ranks_->rank();
  cut();
}

Pipeline::~Pipeline() = default;

PipelineSchedule Pipeline::make_table(int micro_batches) const {
  require<ConfigError>(micro_batches >= 1, "Pipeline: expected at least 1 micro-batch, got ", micro_batches);
  if (!options_.table)
    return make_schedule({.kind = options_.schedule,
                          .ranks = ranks_->size(),
                          .micro_batches = micro_batches,
                          .chunks = options_.chunks});
  PipelineSchedule table = options_.table(micro_batches);
  check_schedule(table);
  require<ConfigError>(table.ranks() == ranks_->size() && table.micro_batches == micro_batches, "schedule '",
                       table.name, "': expected ", ranks_->size(), " ranks and ", micro_batches,
                       " micro-batches, got ", table.ranks(), " and ", table.micro_batches);
  return table;
}

const PipelineSchedule& Pipeline::schedule(int micro_batches) {
  return tables(micro_batches).schedule;
}

const Pipeline::Tables& Pipeline::tables(int micro_batches) {
  const auto found = tables_.find(micro_batches);
  if (found != tables_.end()) return found->second;
  Tables made;
  made.schedule = make_table(micro_batches);
  require<ConfigError>(made.schedule.stage_ranks == stage_ranks_, "schedule '", made.schedule.name,
                       "': its stages are on other ranks for ", micro_batches, " micro-batches than for ",
                       options_.micro_batches);
  const PipelineSchedule lowered = with_messages(made.schedule);
  made.training = lowered.actions(ranks_->rank());
  for (const PipelineAction& action : made.training)
    if (action.kind == ActionKind::forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::recv_forward)
      made.forward.push_back(action);
  if (sharding_) {
    const bool frees = traits_of(sharding_->options().strategy).frees_after_forward;
    made.training =
        with_sharding(lowered, frees ? UnshardScope::action : UnshardScope::step).actions(ranks_->rank());
  }
  return tables_.emplace(micro_batches, std::move(made)).first->second;
}

/// Leaves the parameters of other ranks' stages to them.
void Pipeline::cut() {
  find_tied();
  nn::ParameterSet held;
  stage_layers_.resize(stage_ranks_.size());
  for (size_t s = 0; s < stage_ranks_.size(); ++s) {
    if (stage_ranks_[s] != ranks_->rank()) continue;
    const std::vector<nn::LayerSpec> own(layers_.layers.begin() + boundaries_[s],
                                         layers_.layers.begin() + boundaries_[s + 1]);
    held.merge(nn::variables_of(own));
    stage_layers_[s] =
        nn::checkpoint_segments(own, options_.checkpointing.interval, options_.checkpointing.keep);
  }
  if (is_last_) held.merge(nn::variables_of(layers_.loss.modules));
  model_.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
    if (!held.contains(entry.variable.impl().get())) held_elsewhere_.insert(name);
  });
  nn::hold_only(model_, held);
}

/// Finds the parameters that stages of several ranks read, and makes a group of these ranks for each.
void Pipeline::find_tied() {
  std::map<const VariableImpl*, std::set<int>> readers;
  for (size_t s = 0; s < stage_ranks_.size(); ++s)
    for (int64_t layer = boundaries_[s]; layer < boundaries_[s + 1]; ++layer)
      for (const VariableImpl* variable :
           nn::variables_of(layers_.layers[static_cast<size_t>(layer)].modules))
        readers[variable].insert(stage_ranks_[s]);
  for (const VariableImpl* variable : nn::variables_of(layers_.loss.modules))
    readers[variable].insert(stage_ranks_.back());
  // The order of the model's parameters is the same on all ranks.
  for (const NamedParameter& parameter : model_.parameters()) {
    const std::set<int>& ranks = readers.at(parameter.variable.impl().get());
    if (ranks.size() < 2) continue;
    const bool is_here = ranks.contains(ranks_->rank());
    std::shared_ptr<Communicator> group =
        ranks_->split(is_here ? 0 : -1, ranks_->rank(), text("stages of '", parameter.name, "'"));
    if (!is_here) continue;
    tied_.push_back({parameter.variable, std::move(group)});
    if (*ranks.begin() != ranks_->rank()) counted_elsewhere_.insert(parameter.name);
  }
}

ParameterList Pipeline::parameters() const {
  ParameterList list = model_.parameters();
  list.set_reducer(std::make_shared<StageReducer>(ranks_, list.reducer(), counted_elsewhere_));
  return list;
}

/// Sums of earlier steps have been reduced already: they wait until this step's are. Sharding keeps them
/// apart itself.
void Pipeline::set_aside_tied() {
  for (Tied& tied : tied_) {
    if (!tied.parameter.requires_grad()) continue;
    *tied.is_reached = false;
    tied.hook = tied.parameter.register_post_accumulate_grad_hook(
        [is_reached = tied.is_reached](const Variable&) { *is_reached = true; });
    if (sharding_) continue;
    const Variable gradient = tied.parameter.grad();
    tied.before = gradient.defined() ? gradient.value() : Tensor();
    tied.parameter.set_grad({});
  }
}

/// Sums the gradients of tied parameters over their stages. As on one device, one that no stage has reached
/// has none.
void Pipeline::reduce_tied() {
  for (Tied& tied : tied_) {
    const Variable& parameter = tied.parameter;
    tied.hook.remove();
    if (!parameter.requires_grad()) continue;
    const CallOptions call{.unit = parameter.name()};
    const Tensor reached = Tensor::from<int32_t>({*tied.is_reached});
    tied.ranks->all_reduce(reached, Reduction::max, call).wait();
    const Tensor before = std::exchange(tied.before, {});
    if (reached.data<int32_t>()[0] == 0) {
      if (before.defined()) parameter.set_grad(before);
      continue;
    }
    // A backward makes the zeros of a stage that has none, so that its sharding counts them too.
    if (!*tied.is_reached)
      parameter.view(parameter.shape())
          .backward(ops::zeros(parameter.shape(), parameter.dtype(), parameter.device()));
    tied.ranks
        ->all_reduce(parameter.grad().value(), Reduction::sum,
                     {.unit = parameter.name(), .traffic = Traffic::gradients})
        .wait();
    if (before.defined()) ops::add_(parameter.grad().value(), before);
  }
}

ShardPlacement Pipeline::placement() const {
  ShardPlacement placement;
  if (sharding_) placement = placement_of(*sharding_);
  const Communicator* same = copies();
  placement.full_replicas = same ? Replicas{same->size(), same->rank()} : Replicas{1, 0};
  if (!sharding_) placement.shard_replicas = placement.full_replicas;
  placement.elsewhere = held_elsewhere_;
  placement.saved_elsewhere = counted_elsewhere_;
  placement.saves_common = is_first_;
  return placement;
}

Sharding& Pipeline::shard(ShardOptions options) {
  require<ConfigError>(!sharding_, "Pipeline: the stages are sharded already");
  for (const char* name : {"shard", "replica"})
    require<ConfigError>(
        members_of(options.mesh, name) == members_of(options_.mesh, name),
        "Pipeline::shard: expected the mesh of the pipeline, got one with other ranks along '", name, "'");
  sharding_ = &dist::shard(model_, std::move(options));
  tables_.clear();
  return *sharding_;
}

/// The ranks that have the same stages; null for this one alone.
Communicator* Pipeline::copies() const {
  const std::vector<std::string> names{"replica", "shard"};
  if (options_.mesh.size(names[0]) * options_.mesh.size(names[1]) == 1) return nullptr;
  if (!options_.mesh.has(names[0])) return options_.mesh.group(names[1]).get();
  if (!options_.mesh.has(names[1])) return options_.mesh.group(names[0]).get();
  return options_.mesh.group(names).get();
}

/// Units below the root gather their parameters for their own calls. The root has no call here: what is in no
/// other unit is held from UNSHARD to RESHARD.
void Pipeline::run_sharding(const PipelineAction& action) {
  if (action.kind == ActionKind::unshard)
    unsharded_[action.stage] = std::make_unique<Unsharded>(*sharding_, &model_);
  else if (action.kind == ActionKind::reshard)
    unsharded_.erase(action.stage);
  // REDUCE_GRAD: at the end of the step, after tied parameters have the sums of their stages.
}

/// For forwards alone: what the calls of units do not gather, or all where a strategy keeps it gathered.
std::unique_ptr<Unsharded> Pipeline::hold_parameters() {
  if (!sharding_) return nullptr;
  const bool frees = traits_of(sharding_->options().strategy).frees_after_forward;
  return std::make_unique<Unsharded>(*sharding_, frees ? &model_ : nullptr);
}

/// Throws where a step cannot begin. Until its end the pipeline counts as one that an exception has ended.
void Pipeline::begin_run() {
  require<ConfigError>(!is_broken_,
                       "Pipeline: an exception ended an earlier step, and its messages may still be on their "
                       "way to other ranks: end the program and start again from a checkpoint");
  require<ConfigError>(
      static_cast<bool>(sharding_) == static_cast<bool>(model_.store()),
      "Pipeline: the model was sharded by dist::shard: call `shard` of the pipeline instead");
  is_broken_ = true;
}

/// In the dtype of the parameters, as the root of a sharded model casts its inputs.
nn::LayerValues Pipeline::first_inputs(const MicroBatch& batch) const {
  nn::LayerValues inputs(batch.inputs.begin(), batch.inputs.end());
  if (!sharding_ || !sharding_->options().precision.compute || is_autocast_enabled()) return inputs;
  for (Variable& input : inputs)
    if (is_floating(input.dtype())) input = cast(input, *sharding_->options().precision.compute);
  return inputs;
}

/// Sums over the stages and averages over their copies. The calls also hold the ranks' numbers of
/// micro-batches against each other.
double Pipeline::combine(double value, size_t micro_batches) {
  const Tensor sum = Tensor::from({value});
  const std::string unit = text("step of ", micro_batches, " micro-batches");
  ranks_->all_reduce(sum, Reduction::sum, {.unit = unit}).wait();
  if (Communicator* same = copies()) same->all_reduce(sum, Reduction::avg, {.unit = unit}).wait();
  return sum.data<double>()[0];
}

/// The weights of the micro-batches on the rank of the last stage, and their sum on all. Gradients are
/// averaged over copies of the stages, and so is this: the mean of all counts each micro-batch by its weight.
double Pipeline::total_weight(std::span<const MicroBatch> micro_batches, std::vector<double>& weights) {
  double total = 0;
  if (is_last_)
    for (const MicroBatch& batch : micro_batches) {
      weights.push_back(batch.weight ? *batch.weight : options_.weight ? options_.weight(batch.targets) : 1);
      require<ValueError>(weights.back() >= 0 && std::isfinite(weights.back()),
                          "Pipeline: expected finite weights of at least 0, got ", weights.back(),
                          " for micro-batch ", weights.size() - 1);
      total += weights.back();
    }
  return combine(total, micro_batches.size());
}

nn::LayerValues Pipeline::loss_of(const nn::LayerValues& values, const MicroBatch& batch) const {
  const Variable result = layers_.loss.run(values, batch.targets);
  require<ShapeError>(result.defined() && result.numel() == 1, "the loss: expected a scalar, got ",
                      result.defined() ? to_string(result.shape()) : "nothing");
  return {result};
}

double Pipeline::broadcast_loss(double loss) {
  const Tensor shared = Tensor::from({loss});
  if (Communicator* same = copies(); same && is_last_)
    same->all_reduce(shared, Reduction::avg, {.unit = "loss"}).wait();
  ranks_->broadcast(shared, stage_ranks_.back(), {.unit = "loss"}).wait();
  return shared.data<double>()[0];
}

double Pipeline::train_step(std::span<const MicroBatch> micro_batches, double scale) {
  require<ConfigError>(sharding_ || !copies(), "Pipeline: ", copies() ? copies()->size() : 1,
                       " ranks have the same stages: call `shard` with a strategy, no_shard for copies");
  require<AutogradError>(grad_mode(),
                         "Pipeline::train_step: called under NoGrad; `evaluate` is without gradients");
  const Tables& now = tables(static_cast<int>(std::ssize(micro_batches)));
  begin_run();
  std::vector<double> weights;
  const double total = total_weight(micro_batches, weights);
  const auto share = [&](int m) { return total > 0 ? weights[static_cast<size_t>(m)] / total : 0; };
  double loss = 0;
  std::vector<Tensor> losses(micro_batches.size());
  RunInput input{
      .ranks = *ranks_, .stages = stage_layers_, .stage_ranks = stage_ranks_, .micro_batches = micro_batches};
  input.first_inputs = [this](const MicroBatch& batch) { return first_inputs(batch); };
  input.finish = [&](int m, const nn::LayerValues& values) {
    return loss_of(values, micro_batches[static_cast<size_t>(m)]);
  };
  input.result = [&](int m, const nn::LayerValues& values) {
    losses[static_cast<size_t>(m)] = values[0].value();
    if (share(m) > 0) loss += share(m) * values[0].value().item<double>();
  };
  input.seed = [&](int m) {
    const Tensor& of = losses[static_cast<size_t>(m)];
    return nn::LayerValues{Variable(ops::full(of.shape(), share(m) * scale, of.dtype(), of.device()))};
  };
  input.sharding = [this](const PipelineAction& action) { run_sharding(action); };
  set_aside_tied();
  {
    std::optional<NoSync> until_the_end;
    if (sharding_) until_the_end.emplace(*sharding_);
    Interpreter interpreter(input);
    interpreter.run(now.training);
    most_live_ = interpreter.most_live();
    reduce_tied();
  }
  if (sharding_) sharding_->reduce_gradients();
  const double mean = broadcast_loss(loss);
  is_broken_ = false;
  return mean;
}

double Pipeline::evaluate(std::span<const MicroBatch> micro_batches) {
  const Tables& now = tables(static_cast<int>(std::ssize(micro_batches)));
  begin_run();
  std::vector<double> weights;
  const double total = total_weight(micro_batches, weights);
  double loss = 0;
  RunInput input{.ranks = *ranks_,
                 .stages = stage_layers_,
                 .stage_ranks = stage_ranks_,
                 .micro_batches = micro_batches,
                 .records = false};
  input.first_inputs = [this](const MicroBatch& batch) { return first_inputs(batch); };
  input.finish = [&](int m, const nn::LayerValues& values) {
    return loss_of(values, micro_batches[static_cast<size_t>(m)]);
  };
  input.result = [&](int m, const nn::LayerValues& values) {
    const double weight = weights[static_cast<size_t>(m)];
    if (weight > 0) loss += weight / total * values[0].value().item<double>();
  };
  const std::unique_ptr<Unsharded> held = hold_parameters();
  Interpreter(input).run(now.forward);
  const double mean = broadcast_loss(loss);
  is_broken_ = false;
  return mean;
}

std::vector<nn::LayerValues> Pipeline::forward(std::span<const MicroBatch> micro_batches) {
  const Tables& now = tables(static_cast<int>(std::ssize(micro_batches)));
  begin_run();
  combine(0, micro_batches.size());
  std::vector<nn::LayerValues> results;
  RunInput input{.ranks = *ranks_,
                 .stages = stage_layers_,
                 .stage_ranks = stage_ranks_,
                 .micro_batches = micro_batches,
                 .records = false};
  input.first_inputs = [this](const MicroBatch& batch) { return first_inputs(batch); };
  if (layers_.result)
    input.finish = [&](int, const nn::LayerValues& values) { return layers_.result(values); };
  if (is_last_) results.resize(micro_batches.size());
  input.result = [&](int m, const nn::LayerValues& values) { results[static_cast<size_t>(m)] = values; };
  const std::unique_ptr<Unsharded> held = hold_parameters();
  Interpreter(input).run(now.forward);
  is_broken_ = false;
  return results;
}

}  // namespace tessera::dist
