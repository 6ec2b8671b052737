#include "dist/train/manual/manual_optimization.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "dist/checkpoint/checkpoint_folder.h"
#include "dist/checkpoint/checkpoint_reader.h"
#include "dist/checkpoint/checkpoint_writer.h"
#include "dist/checkpoint/distributed_checkpoint.h"
#include "dist/train/engine/extra_groups.h"
#include "dist/train/engine/recomputation.h"
#include "dist/train/engine/sharding_options.h"
#include "dist/train/manual/learning_rates.h"
#include "nn/materialize.h"
#include "nn/mixed_precision.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

void require_parts(const std::vector<Part>& parts) {
  require<ConfigError>(!parts.empty(), "Task::configure_parts: expected parts, got none");
  std::set<std::string> names;
  std::unordered_map<const VariableImpl*, const Part*> owners;
  for (const Part& part : parts) {
    require<ConfigError>(!part.name.empty() && part.name.find_first_of("/.\n") == std::string::npos,
                         "Task::configure_parts: expected names without '/' and '.', got '", part.name, "'");
    require<ConfigError>(names.insert(part.name).second, "Task::configure_parts: expected names of their ",
                         "own, got '", part.name, "' twice");
    require<ConfigError>(part.optimizer != nullptr, "Task::configure_parts: part '", part.name,
                         "': expected a function that makes the optimizer, got none");
    part.module.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
      if (entry.is_buffer) return;
      const auto [owner, is_new] = owners.try_emplace(entry.variable.impl().get(), &part);
      require<ConfigError>(is_new || owner->second == &part,
                           "Task::configure_parts: expected a parameter in ", "one part only, got '", name,
                           "' in '", owner->second->name, "' and in '", part.name, "'");
    });
  }
}

std::vector<Variable> trained_parameters(const nn::Module& module) {
  std::vector<Variable> trained;
  module.for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
    if (!entry.is_buffer && entry.variable.requires_grad()) trained.push_back(entry.variable);
  });
  return trained;
}

bool is_on_meta(const nn::Module& module) {
  bool found = false;
  module.for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
    found = found || entry.variable.value().is_meta();
  });
  return found;
}

/// Where a checkpoint keeps a counter of a part.
std::string counter_name(const Part& part, const std::string& name) {
  return text("part.", part.name, ".", name);
}

}  // namespace

ManualOptimization::ManualOptimization(nn::Module& root, std::vector<Part> parts, EngineOptions options,
                                       Hooks hooks)
    : root_(root),
      parts_(std::move(parts)),
      world_(options.world),
      log_(options.log),
      hooks_(std::move(hooks)),
      rates_(std::make_unique<LearningRates>()) {
  require_parts(parts_);
  // By the names in the whole model, which do not depend on the parts.
  const TrainingConfig& config = options.config;
  const Device device = options.device.value_or(world_ ? world_->device() : cpu());
  if (is_on_meta(root_)) nn::materialize(root_, device, config.seed);
  const bool is_sharded = world_ && (world_->size() > 1 || config.strategy != dist::Strategy::no_shard);
  checkpointed_ = std::make_unique<CheckpointedModules>(root_, config);
  dist::Sharding* sharding = nullptr;
  if (is_sharded && &parts_[0].module != &root_) sharding = shard_parts(config, options.units);
  for (const Part& part : parts_) {
    trained_.push_back(trained_parameters(part.module));
    TrainingConfig own = config;
    own.gradient_clip = part.gradient_clip.value_or(config.gradient_clip);
    own.activation_checkpoint.clear();  // chosen above, from the whole model
    own.stages.checkpointing = {};
    OptimizerSetup setup;
    const auto make_optimizer = [&](const ParameterList& parameters) {
      setup = part.optimizer(parameters);
      return std::move(setup.optimizer);
    };
    engines_.push_back(std::make_unique<EngineCore>(
        part.module, EngineOptions{.config = own,
                                   .optimizer = make_optimizer,
                                   .world = world_,
                                   .units = options.units,
                                   .device = device,
                                   .log = log_,
                                   .sharding = sharding,
                                   .before_zero_grad = hooks_.before_zero_grad}));
    rates_->add(part.name, *engines_.back(), std::move(setup));
  }
}

/// Shards all of the model, with the parts among the units: they are called one by one, the model itself is
/// not.
dist::Sharding* ManualOptimization::shard_parts(const TrainingConfig& config, const dist::UnitPolicy& units) {
  std::set<const VariableImpl*> in_parts;
  for (const Part& part : parts_)
    for (const VariableImpl* variable : nn::parameters_below(part.module)) in_parts.insert(variable);
  for (const VariableImpl* variable : nn::parameters_below(root_))
    require<NotBuiltError>(in_parts.contains(variable),
                           "Task::configure_parts: parameters in no part are not ",
                           "there yet over several ranks");
  const auto choose = [this, units](nn::Module& root) {
    const std::vector<nn::Module*> chosen = units.choose(root);
    std::vector<nn::Module*> ordered;
    root.for_each([&](nn::Module& module) {
      const bool is_part = std::any_of(parts_.begin(), parts_.end(),
                                       [&](const Part& part) { return &part.module == &module; });
      if (is_part || std::find(chosen.begin(), chosen.end(), &module) != chosen.end())
        ordered.push_back(&module);
    });
    return ordered;
  };
  return &dist::shard(root_, sharding_options(config, *world_, dist::UnitPolicy(choose)));
}

ManualOptimization::~ManualOptimization() {
  thaw();
}

size_t ManualOptimization::index_of(int part) const {
  require<IndexError>(part >= 0 && part < size(), "ManualOptimization: expected a part in [0, ", size(),
                      "), got ", part);
  return static_cast<size_t>(part);
}

EngineCore& ManualOptimization::engine(int part) {
  return *engines_[index_of(part)];
}

Variable ManualOptimization::optimize(int part, const std::function<Variable()>& loss) {
  begin(part);
  Variable value = loss();
  backward(part, value);
  step(part);
  return value;
}

void ManualOptimization::begin(int part) {
  const size_t index = index_of(part);
  active_ = part;
  has_begun_ = true;
  for (size_t i = 0; i < trained_.size(); ++i)
    for (const Variable& parameter : trained_[i]) parameter.set_requires_grad(i == index);
  engines_[index]->begin_micro_batch();
}

void ManualOptimization::backward(int part, const Variable& loss) {
  const size_t index = index_of(part);
  require<ConfigError>(has_begun_ && active_ == part,
                       "ManualOptimization::backward: expected `begin` of part '", parts_[index].name,
                       "' before the forward of its loss");
  require<ConfigError>(loss.defined(), "ManualOptimization::backward: expected the loss of part '",
                       parts_[index].name, "', got an undefined Variable");
  hooks_.before_backward(loss);
  engines_[index]->backward(loss, share_);
  hooks_.after_backward();
}

bool ManualOptimization::step(int part) {
  EngineCore& stepped = engine(part);
  if (stepped.is_gradient_accumulation_boundary()) hooks_.before_optimizer_step();
  const bool updated = stepped.step();
  rates_->end_step();
  return updated;
}

/// Every parameter requires gradients as at the beginning.
void ManualOptimization::thaw() {
  if (std::exchange(has_begun_, false))
    for (const std::vector<Variable>& part : trained_)
      for (const Variable& parameter : part) parameter.set_requires_grad(true);
}

void ManualOptimization::begin_micro_batch(double share) {
  share_ = share;
}

void ManualOptimization::end_micro_batch() {
  thaw();
  ++micro_steps_;
  const int64_t accumulate = active().gradient_accumulation_steps();
  if (micro_steps_ % accumulate != 0) return;
  for (size_t i = 0; i < engines_.size(); ++i)
    require<ConfigError>(engines_[i]->micro_steps() % accumulate == 0, "Trainer: part '", parts_[i].name,
                         "': expected a multiple of ", accumulate,
                         " calls of `step` (accumulate) in a step, ", "got ",
                         engines_[i]->micro_steps() % accumulate, " left");
}

/// Tensors of the model that are in no part: frozen parameters and buffers.
std::vector<NamedTensor> ManualOptimization::rest() const {
  std::set<const VariableImpl*> seen;
  for (const Part& part : parts_)
    part.module.for_each_entry([&](const std::string&, const nn::Module::Entry& entry) {
      seen.insert(entry.variable.impl().get());
    });
  std::vector<NamedTensor> tensors;
  root_.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
    if (entry.is_buffer && !entry.persistent) return;
    if (seen.insert(entry.variable.impl().get()).second) tensors.push_back({name, entry.variable.value()});
  });
  return tensors;
}

std::vector<dist::TensorGroup> ManualOptimization::full_groups() {
  std::vector<dist::TensorGroup> groups;
  for (size_t i = 0; i < engines_.size(); ++i)
    for (dist::TensorGroup& group : engines_[i]->full_groups())
      groups.push_back({group.name + "." + parts_[i].name, std::move(group.tensors)});
  if (std::vector<NamedTensor> tensors = rest(); !tensors.empty())
    groups.push_back({"rest", std::move(tensors)});
  return groups;
}

std::vector<dist::GroupShard> ManualOptimization::shard_groups() {
  std::vector<dist::GroupShard> groups;
  for (size_t i = 0; i < engines_.size(); ++i)
    for (dist::GroupShard& group : engines_[i]->shard_groups()) {
      group.name += "." + parts_[i].name;
      groups.push_back(std::move(group));
    }
  dist::GroupShard others = dist::unsharded({"rest", rest()});
  for (dist::TensorShard& shard : others.shards) shard.replicas = {world_->size(), world_->rank()};
  if (!others.shards.empty()) groups.push_back(std::move(others));
  return groups;
}

std::string ManualOptimization::save_checkpoint(const std::string& folder, const SaveExtras& extras) {
  dist::TrainingState state = engines_[0]->training_state(extras);
  state.step = micro_steps_ / engines_[0]->gradient_accumulation_steps();
  state.data_position = state.step * engines_[0]->train_batch_size();
  for (size_t i = 0; i < engines_.size(); ++i)
    for (const auto& [name, value] : engines_[i]->counters())
      state.run[counter_name(parts_[i], name)] = value;
  const dist::SaveOptions options{.keep = extras.keep, .keep_best = extras.keep_best};
  std::string saved;
  if (engines_[0]->sharding()) {
    std::vector<dist::GroupShard> groups = shard_groups();
    groups.insert(groups.end(), extras.groups.begin(), extras.groups.end());
    if (extras.background) {
      extras.background->start(folder, state, groups, options);
      return text(folder, "/", dist::step_name(state.step));
    }
    saved = dist::save_checkpoint(world_->communicator(), folder, state, groups, options);
  } else {
    std::vector<dist::TensorGroup> groups = full_groups();
    add_full(groups, extras.groups);
    saved = dist::save_checkpoint(folder, state, groups, options);
  }
  report(text("step ", state.step, " is saved: ", saved));
  return saved;
}

void ManualOptimization::report(const std::string& message) const {
  if (!world_ || world_->rank() == 0) log_.info("dist.checkpoint", message);
}

std::map<std::string, std::string> ManualOptimization::load_checkpoint(
    const std::string& folder, const std::function<void(const std::map<std::string, std::string>&)>& check,
    const std::vector<dist::GroupShard>& groups) {
  const bool is_sharded = engines_[0]->sharding() != nullptr;
  const std::unique_ptr<dist::CheckpointReader> reader =
      is_sharded ? dist::open_checkpoint(world_->communicator(), folder)
                 : std::make_unique<dist::CheckpointReader>(dist::find_checkpoint(folder));
  const std::map<std::string, std::string> run(reader->state().run.begin(), reader->state().run.end());
  if (check) check(run);
  std::vector<std::map<std::string, std::string>> counters(engines_.size());
  for (size_t i = 0; i < engines_.size(); ++i) {
    const std::string prefix = counter_name(parts_[i], "");
    for (const auto& [name, value] : run)
      if (name.starts_with(prefix)) counters[i][name.substr(prefix.size())] = value;
    require<CheckpointError>(!counters[i].empty(), reader->folder(), ": has no part '", parts_[i].name, "'");
  }
  const std::vector<dist::GroupShard> others = saved_groups(*reader, groups);
  if (is_sharded) {
    std::vector<dist::GroupShard> all = shard_groups();
    all.insert(all.end(), others.begin(), others.end());
    dist::load_checkpoint(world_->communicator(), *reader, all);
  } else {
    std::vector<dist::TensorGroup> all = full_groups();
    add_full(all, others);
    dist::load_checkpoint(*reader, all);
  }
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (!is_sharded) nn::round_masters(parts_[i].module);
    engines_[i]->load_counters(counters[i]);
  }
  micro_steps_ = reader->state().step * engines_[0]->gradient_accumulation_steps();
  report(text("step ", reader->state().step, " is loaded: ", folder));
  return run;
}

void ManualOptimization::load_weights(const std::string& folder) {
  const auto is_of_optimizer = [](const auto& group) { return group.name.starts_with("optimizer."); };
  if (engines_[0]->sharding()) {
    std::vector<dist::GroupShard> groups = shard_groups();
    std::erase_if(groups, is_of_optimizer);
    dist::load_checkpoint(world_->communicator(), *dist::open_checkpoint(world_->communicator(), folder),
                          groups);
    return;
  }
  std::vector<dist::TensorGroup> groups = full_groups();
  std::erase_if(groups, is_of_optimizer);
  dist::load_checkpoint(dist::CheckpointReader(dist::find_checkpoint(folder)), groups);
  for (const Part& part : parts_) nn::round_masters(part.module);
}

}  // namespace tessera::training
