#include "dist/fsdp/engine.h"

namespace tessera::dist {

struct SummonFullParams::FullParameters {
  FlatParameter* flat;
  Tensor values;
};

SummonFullParams::SummonFullParams(Sharding& sharding, const SummonOptions& options)
    : engine_(sharding.weak_engine()), write_back_(options.write_back) {
  Sharding::Engine& engine = sharding.engine();
  require<ConfigError>(!engine.is_summon_open(), "SummonFullParams: one is open already");
  require<ConfigError>(
      !engine.is_in_use(),
      "SummonFullParams: a forward of the model, or a backward, is running and reads the "
      "gathered parameters; open it before or after, not in a hook, a forward or a backward rule");
  for (Unit* unit : engine.units_of(options.unit, "SummonFullParams")) {
    unit->release_holds();
    if (!engine.traits().shards_parameters || unit->state() == Unit::State::unsharded) {
      // A backward after this scope reads what is kept, perhaps without a request: it must be up to date.
      unit->unshard();
      unit->wait();
      unit->reshard();
    }
    unit->wait_for_readers();
    for (const auto& flat : unit->flats()) full_.push_back({flat.get(), flat->gather_values()});
  }
  for (const FullParameters& full : full_) {
    full.flat->show_values(full.values);
    for (const UnitParameter& parameter : full.flat->parameters())
      engine.set_full_value(parameter.variable.impl().get(), parameter.variable.value());
  }
  engine.open_summon(!options.unit);
}

SummonFullParams::~SummonFullParams() {
  const std::shared_ptr<Sharding::Engine> engine = engine_.lock();
  if (!engine) return;
  for (const FullParameters& full : full_) {
    if (write_back_) full.flat->set_values(full.values);
    for (const UnitParameter& parameter : full.flat->parameters())
      engine->set_full_value(parameter.variable.impl().get(), {});
    full.flat->show_values({});
  }
  engine->close_summon();
}

Unsharded::Unsharded(Sharding& sharding, const nn::Module* unit) : engine_(sharding.weak_engine()) {
  const std::vector<Unit*> chosen = sharding.engine().units_of(unit, "Unsharded");
  try {
    for (Unit* one : chosen) {
      units_.push_back(one);
      one->unshard();
    }
    for (Unit* one : chosen) one->wait();
  } catch (...) {
    for (Unit* one : units_) one->reshard();
    throw;
  }
}

Unsharded::~Unsharded() {
  const std::shared_ptr<Sharding::Engine> engine = engine_.lock();
  if (!engine) return;
  for (Unit* unit : units_) unit->reshard();
}

}  // namespace tessera::dist
