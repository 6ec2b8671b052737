// The cut of a model into stages, and what ranks hold.

#include "dist/pipeline/run/pipeline.h"

#include <xxhash.h>

#include <algorithm>
#include <set>

#include "dist/checkpoint/model_state.h"
#include "dist/pipeline/generators/lowering.h"
#include "dist/pipeline/run/stage_random.h"
#include "dist/pipeline/run/stage_reducer.h"
#include "dist/pipeline/schedule/csv.h"
#include "dist/pipeline/simulation/check.h"
#include "dist/pipeline/simulation/messages.h"
#include "nn/sequence/checkpoint_layers.h"
#include "nn/sequence/hold.h"
#include "tensor/error.h"

namespace tessera::dist {
namespace {

constexpr const char* dimension = "pipeline";

void require_known_dimensions(const Mesh& mesh) {
  require<ConfigError>(mesh.has(dimension), "Pipeline: expected a mesh with a dimension 'pipeline'");
  for (const MeshDimension& each : mesh.dimensions())
    require<ConfigError>(
        each.size == 1 || each.name == dimension || each.name == "replica" || each.name == "shard",
        "Pipeline: expected a mesh of 'pipeline', 'replica' and 'shard', got a dimension '", each.name,
        "' of ", each.size, " ranks");
}

bool has_sharding(const PipelineSchedule& schedule) {
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const PipelineAction& action : schedule.actions(rank))
      if (!has_micro_batch(action.kind)) return true;
  return false;
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
                                 peak_live_by_stage(example));
  is_first_ = stage_ranks_.front() == ranks_->rank();
  is_last_ = stage_ranks_.back() == ranks_->rank();
  std::string cut_at;
  for (const int64_t layer : boundaries_) cut_at += text(cut_at.empty() ? "" : ",", layer);
  agree("stages of layers", text(cut_at, " checkpoints of ", options_.checkpointing.interval));
  cut();
}

Pipeline::~Pipeline() = default;

/// Throws MismatchError unless all ranks have the same `content`: with other cuts or tables they would train
/// another model, or wait for each other.
void Pipeline::agree(const std::string& name, const std::string& content) {
  constexpr size_t most = 40;  // a call's unit has 88 characters
  const std::string shown =
      content.size() > most || content.find('\n') != std::string::npos ? "" : " " + content;
  const std::string what =
      text(name, shown, " #", XXH3_64bits(content.data(), content.size()) % 1'000'000'007);
  ranks_->all_reduce(Tensor::zeros({1}), Reduction::sum, {.unit = what}).wait();
  if (Communicator* same = copies())
    same->all_reduce(Tensor::zeros({1}), Reduction::sum, {.unit = what}).wait();
}

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
  const bool shards_itself = has_sharding(made.schedule);
  require<ConfigError>(!shards_itself || sharding_, "schedule '", made.schedule.name,
                       "': it has actions of sharding, and the stages of this pipeline are not sharded");
  const PipelineSchedule lowered = has_messages(made.schedule) ? made.schedule : with_messages(made.schedule);
  made.training = lowered.actions(ranks_->rank());
  for (const PipelineAction& action : made.training)
    if (action.kind == ActionKind::forward || action.kind == ActionKind::send_forward ||
        action.kind == ActionKind::recv_forward)
      made.forward.push_back(action);
  if (sharding_ && !shards_itself) {
    const bool frees = traits_of(sharding_->options().strategy).frees_after_forward;
    made.training =
        with_sharding(lowered, frees ? UnshardScope::action : UnshardScope::step).actions(ranks_->rank());
  }
  return tables_.emplace(micro_batches, std::move(made)).first->second;
}

/// The table of a step that all ranks take.
const Pipeline::Tables& Pipeline::agreed_tables(size_t micro_batches) {
  const Tables& now = tables(static_cast<int>(micro_batches));
  if (agreed_.insert(micro_batches).second)
    agree(text("step of ", micro_batches, " micro-batches, table"), to_csv(now.schedule));
  return now;
}

/// Leaves the parameters of other ranks' stages to them.
void Pipeline::cut() {
  find_tied();
  nn::ParameterSet held;
  stage_layers_.resize(stage_ranks_.size());
  std::vector<std::set<std::string>> names(stage_ranks_.size());
  for (size_t s = 0; s < stage_ranks_.size(); ++s)
    for (int64_t layer = boundaries_[s]; layer < boundaries_[s + 1]; ++layer)
      names[s].merge(names_of_modules(layers_.layers[static_cast<size_t>(layer)].modules));
  names.back().merge(names_of_modules(layers_.loss.modules));
  random_ = std::make_unique<StageRandom>(names_in_several_stages(names));
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
  find_shared_buffers(readers);
}

/// A buffer that stages of several ranks read is saved by the first of them. Each rank keeps its own: one
/// that forwards change counts those of its rank alone.
void Pipeline::find_shared_buffers(const std::map<const VariableImpl*, std::set<int>>& readers) {
  model_.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
    if (!entry.is_buffer) return;
    const auto found = readers.find(entry.variable.impl().get());
    if (found != readers.end() && *found->second.begin() != ranks_->rank() &&
        found->second.contains(ranks_->rank()))
      counted_elsewhere_.insert(name);
  });
}

ParameterList Pipeline::parameters() const {
  ParameterList list = model_.parameters();
  list.set_reducer(std::make_shared<StageReducer>(ranks_, list.reducer(), counted_elsewhere_));
  return list;
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

}  // namespace tessera::dist
