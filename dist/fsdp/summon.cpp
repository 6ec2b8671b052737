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
  require<ConfigError>(engine.is_materialized(), "SummonFullParams: the parameters have no numbers yet");
  std::vector<Unit*> chosen;
  for (const auto& unit : engine.units())
    if (!options.unit || &unit->module() == options.unit) chosen.push_back(unit.get());
  require<ConfigError>(!chosen.empty(), "SummonFullParams: '", options.unit ? options.unit->full_name() : "",
                       "' is no unit of this model");
  for (Unit* unit : chosen) {
    unit->reshard();
    unit->settle();
    for (const auto& flat : unit->flats()) wholes_.push_back({flat.get(), flat->gather_numbers()});
  }
  for (const Whole& whole : wholes_) {
    whole.flat->show(whole.numbers);
    for (const UnitParameter& parameter : whole.flat->parameters())
      engine.set_whole_numbers(parameter.variable.impl().get(), parameter.variable.value());
  }
  engine.open_summon(!options.unit);
}

SummonFullParams::~SummonFullParams() {
  Sharding::Engine& engine = sharding_.engine();
  for (const Whole& whole : wholes_) {
    if (write_back_) whole.flat->set_numbers(whole.numbers);
    for (const UnitParameter& parameter : whole.flat->parameters())
      engine.set_whole_numbers(parameter.variable.impl().get(), {});
    whole.flat->show({});
  }
  engine.close_summon();
}

}  // namespace tessera::dist
