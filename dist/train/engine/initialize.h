#pragma once  // not in tessera.h

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "data/data_loader.h"
#include "dist/train/engine/engine.h"

namespace tessera::training {

/// JSON in memory, in the form of a file of DeepSpeed.
struct JsonText {
  std::string text;  ///< the configuration
};

/// What `initialize` takes besides the model.
struct InitializeOptions {
  /// The options of the run: a struct, the path of a file of DeepSpeed's configuration, or its text.
  std::variant<TrainingConfig, std::string, JsonText> config = {};
  /// Values for what the file lacks, and for its "auto"; not with a struct.
  TrainingConfig defaults = {};
  /// Of the loader; null: none is made.
  std::shared_ptr<const data::Dataset> training_data = {};
  /// Of the loader: batch size and ranks are those of the configuration. An incomplete last batch is left out
  /// by default, since `backward` weighs all micro-batches alike, and a rank without samples has no mean
  /// loss.
  data::DataLoader::Options loader = {.shuffle = true, .drop_last = true};
  /// The optimizer and the schedule. Without them those that the file names.
  /// @{
  OptimizerMaker optimizer = {};
  std::optional<optim::Schedule> schedule = {};
  /// @}
  /// Of training in stages, as in EngineOptions; without `layers` the model's `to_layered_model()`, where it
  /// has one.
  /// @{
  nn::LayeredModel layers = {};
  std::function<dist::MicroBatch(const data::Batch&)> stage_batch = {};
  /// @}
  dist::World* world = nullptr;  ///< all ranks; null: this process is the only one
  dist::UnitPolicy units = {};   ///< of sharding
  /// Gets, on rank 0, the warnings of the file as "train.config", and what the engine reports.
  Logger log = {};
};

/// The parts of `initialize` that do not depend on the model's type.
struct Resources {
  EngineOptions engine;                             ///< options of the engine
  std::optional<data::DataLoader::Options> loader;  ///< nothing without training data
};
/// Reads the configuration. Throws ConfigError for a file that is wrong (`deepspeed::read`), for a run
/// without an optimizer, and for one that both code and file give.
Resources prepare(const InitializeOptions& options);

/// What `initialize` returns, for a structured binding.
template <class Model>
struct Initialized {
  Engine<Model> engine;         ///< the model and its step
  optim::Optimizer& optimizer;  ///< the engine's
  /// Micro-batches of all ranks, of which this rank has its share.
  std::optional<data::DataLoader> loader;
  /// Advanced by the engine; nothing without a schedule.
  const std::optional<optim::Schedule>& schedule;

  /// Used by `initialize`.
  Initialized(Model& model, const InitializeOptions& options, Resources resources)
      : engine(model, std::move(resources.engine)),
        optimizer(engine.optimizer()),
        schedule(engine.schedule()) {
    if (resources.loader) {
      resources.loader->batch_size = engine.train_micro_batch_size_per_gpu() * engine.data_ranks();
      resources.loader->rank = engine.data_rank();
      resources.loader->world_size = engine.data_ranks();
      loader.emplace(options.training_data, *resources.loader);
    }
  }
};

/// DeepSpeed's initialize: an engine for a model, its optimizer, a loader of micro-batches and the schedule.
///
///     auto [engine, optimizer, loader, schedule] =
///         training::initialize(model, {.config = "ds_config.json", .training_data = dataset, .world =
///         &world});
///     for (auto& [x, y] : *loader) {
///       const Variable loss = nn::cross_entropy(engine(x), y);
///       engine.backward(loss);
///       engine.step();
///     }
///
/// In stages (`TrainingConfig::stages`) a step is `engine.train_batch(batches, end)`. All ranks call it
/// together. Throws as `prepare` and the constructor of the engine.
template <class Model>
Initialized<Model> initialize(Model& model, const InitializeOptions& options) {
  Resources resources = prepare(options);
  if constexpr (requires(const Model& m) {
                  { m.to_layered_model() } -> std::convertible_to<nn::LayeredModel>;
                })
    if (resources.engine.config.stages.stages > 0 && resources.engine.layers.layers.empty())
      resources.engine.layers = model.to_layered_model();
  return {model, options, std::move(resources)};
}

}  // namespace tessera::training
