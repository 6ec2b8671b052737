#include "dist/fsdp/engine.h"

namespace tessera::dist {

struct SummonFullParams::Whole {
  FlatParameter* flat;
  Tensor numbers;
};

SummonFullParams::SummonFullParams(Sharding& sharding, const SummonOptions& options)
    : sharding_(sharding), write_back_(options.write_back) {
  Sharding::Engine& engine = sharding.engine();
  require<ConfigError>(!engine.is_summon_open(), "SummonFullParams: one is open already");
  require<ConfigError>(
      !engine.is_in_use(),
      "SummonFullParams: a forward of the model, or a backward, is running and reads the "
      "gathered parameters; open it before or after, not in a hook, a forward or a gradient's rule");
  for (Unit* unit : engine.units_of(options.unit, "SummonFullParams")) {
    unit->reshard_idle();
    unit->settle();
    for (const auto& flat : unit->flats()) wholes_.push_back({flat.get(), flat->gather_numbers()});
  }
  for (const Whole& whole : wholes_) {
    whole.flat->show(whole.numbers);
    for (const UnitParameter& parameter : whole.flat->parameters())
      engine.set_full_value(parameter.variable.impl().get(), parameter.variable.value());
  }
  engine.open_summon(!options.unit);
}

SummonFullParams::~SummonFullParams() {
  Sharding::Engine& engine = sharding_.engine();
  for (const Whole& whole : wholes_) {
    if (write_back_) whole.flat->set_numbers(whole.numbers);
    for (const UnitParameter& parameter : whole.flat->parameters())
      engine.set_full_value(parameter.variable.impl().get(), {});
    whole.flat->show({});
  }
  engine.close_summon();
}

Unsharded::Unsharded(Sharding& sharding, const nn::Module* unit) {
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
  for (Unit* unit : units_) unit->reshard();
}

}  // namespace tessera::dist
