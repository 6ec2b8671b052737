#include "dist/fsdp/shard.h"

#include <algorithm>

#include "dist/fsdp/engine.h"
#include "dist/fsdp/reducer.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::dist {
namespace {

void cast_buffers(nn::Module& root, const Precision& precision) {
  if (!precision.buffer) return;
  const CategoryScope category(MemoryCategory::parameter);
  for (const NamedParameter& buffer : root.buffers())
    if (is_floating(buffer.variable.dtype()))
      buffer.variable.set_value(ops::cast(buffer.variable.value(), *precision.buffer));
}

/// Moves the parameters from `module` down, in order of declaration, from `wanted` to `list`.
void collect(const nn::Module& module, const Sharding::Engine& engine, nn::ParameterSet& wanted,
             ParameterList& list) {
  module.for_each_entry([&](const std::string& name, const nn::Module::Entry& entry) {
    if (entry.is_buffer || wanted.erase(entry.variable.impl().get()) == 0) return;
    const Sharding::Engine::Place* place = engine.find(entry.variable.impl().get());
    NamedParameter parameter{.name = "", .variable = entry.variable, .master = entry.master};
    if (place) parameter = place->flat->local(place->index);
    parameter.name = name;
    list.push_back(std::move(parameter));
  });
}

void collect_ignored(const nn::Module& module, const std::string& prefix, bool is_ignored,
                     const Sharding::Engine& engine, std::set<std::string>& names) {
  const std::vector<nn::Module*>& ignored = engine.options().ignored;
  is_ignored = is_ignored || std::find(ignored.begin(), ignored.end(), &module) != ignored.end();
  if (is_ignored)
    for (const nn::Module::Entry& entry : module.entries())
      if (entry.held && entry.variable.defined() &&
          (entry.is_buffer || !engine.find(entry.variable.impl().get())))
        names.insert(prefix + entry.name);
  for (const nn::Module::Child& child : module.child_entries())
    collect_ignored(*child.module, prefix + child.name + ".", is_ignored, engine, names);
}

}  // namespace

Sharding::Sharding(nn::Module& root, ShardOptions options)
    : engine_(std::make_shared<Engine>(root, std::move(options))) {
  cast_buffers(root, engine_->options().precision);
}
Sharding::~Sharding() = default;

const ShardOptions& Sharding::options() const {
  return engine_->options();
}

std::span<const std::unique_ptr<Unit>> Sharding::units() const {
  return engine_->units();
}

int Sharding::replicas() const {
  const int across = engine_->replica_group() ? engine_->replica_group()->size() : 1;
  return engine_->traits().shards_optimizer ? across : across * engine_->shard_group().size();
}

int Sharding::replica_index() const {
  const int across = engine_->replica_group() ? engine_->replica_group()->rank() : 0;
  return engine_->traits().shards_optimizer
             ? across
             : across * engine_->shard_group().size() + engine_->shard_group().rank();
}

std::set<std::string> Sharding::ignored_names() const {
  std::set<std::string> names;
  collect_ignored(engine_->root(), "", false, *engine_, names);
  return names;
}

ParameterList Sharding::parameters(const nn::Module& module) {
  require<ConfigError>(engine_->is_materialized(), "parameters: this rank's shard of '", module.full_name(),
                       "' has no values yet: call nn::materialize after sharding");
  engine_->sync_requires_grad();
  ParameterList list;
  nn::ParameterSet wanted = nn::parameters_below(module);
  collect(engine_->root(), *engine_, wanted, list);
  list.set_reducer(std::make_shared<ShardReducer>(engine_));
  return list;
}

void Sharding::materialize(Device device, uint64_t seed) {
  engine_->materialize(device, seed);
}

Tensor Sharding::full_value(const std::string& name, const Variable& parameter) {
  if (const Tensor* full = engine_->full_value(parameter.impl().get())) return *full;
  require<ConfigError>(!engine_->find(parameter.impl().get()), "state_dict: '", name,
                       "' is sharded: open a dist::SummonFullParams, or save with dist::save_checkpoint");
  return parameter.value();
}

Sharding& shard(nn::Module& module, ShardOptions options) {
  const auto sharding = std::make_shared<Sharding>(module, std::move(options));
  module.set_store(sharding);
  return *sharding;
}

void Sharding::reduce_gradients() {
  engine_->reduce_accumulated();
}

Accumulation::Accumulation(Sharding& sharding, bool communicate)
    : engine_(sharding.weak_engine()),
      was_open_(sharding.engine().accumulation.open),
      did_communicate_(sharding.engine().accumulation.communicate) {
  sharding.engine().accumulation = {true, communicate};
}

Accumulation::~Accumulation() {
  if (const auto engine = engine_.lock()) engine->accumulation = {was_open_, did_communicate_};
}

}  // namespace tessera::dist
