#include "dist/train/engine/initialize.h"

#include "dist/train/config/training_fields.h"
#include "dist/train/deepspeed/by_name.h"
#include "dist/train/deepspeed/configuration.h"
#include "tensor/error.h"

namespace tessera::training {
namespace {

deepspeed::Configuration read_file(const InitializeOptions& options) {
  const auto* const path = std::get_if<std::string>(&options.config);
  JsonDocument document =
      path ? JsonDocument::read(*path)
           : JsonDocument::parse(std::get<JsonText>(options.config).text, "the configuration");
  Resolved<TrainingConfig> program(training_fields());
  program.change({Source::program, ""}, [&](TrainingConfig& config) { config = options.defaults; });
  const int ranks = options.world ? options.world->size() : 1;
  return deepspeed::read(std::move(document), std::move(program), data_ranks(options.defaults.stages, ranks));
}

}  // namespace

Resources prepare(const InitializeOptions& options) {
  Resources resources;
  EngineOptions& engine = resources.engine;
  engine.optimizer = options.optimizer;
  engine.schedule = options.schedule;
  engine.world = options.world;
  engine.units = options.units;
  engine.log = options.log;
  engine.layers = options.layers;
  engine.stage_batch = options.stage_batch;
  if (const auto* const config = std::get_if<TrainingConfig>(&options.config)) {
    engine.config = *config;
  } else {
    const auto file = std::make_shared<const deepspeed::Configuration>(read_file(options));
    engine.config = *file->training;
    if (!options.world || options.world->rank() == 0)
      for (const std::string& warning : file->warnings) options.log.warning("train.config", warning);
    if (file->optimizer) {
      require<ConfigError>(!engine.optimizer, file->optimizer->node.place(),
                           ": the program gives an optimizer too; leave one of them out");
      engine.optimizer = [file](const ParameterList& parameters) {
        return deepspeed::make_optimizer(*file->optimizer, parameters);
      };
    }
    if (file->schedule) {
      require<ConfigError>(!engine.schedule, file->schedule->node.place(),
                           ": the program gives a schedule too; leave one of them out");
      engine.schedule = deepspeed::make_schedule(*file->schedule, engine.config.max_steps);
    }
  }
  require<ConfigError>(engine.optimizer != nullptr,
                       "initialize: expected an optimizer, from the program or the configuration, got none");
  if (options.training_data) {
    resources.loader = options.loader;
    resources.loader->seed = engine.config.seed;
  }
  return resources;
}

}  // namespace tessera::training
