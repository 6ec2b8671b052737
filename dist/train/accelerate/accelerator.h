#pragma once  // not in tessera.h

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "data/data_loader.h"
#include "dist/train/accelerate/deepspeed_plugin.h"
#include "dist/train/engine/engine.h"
#include "tensor/error.h"

namespace tessera::training {

/// Options of an Accelerator.
struct AcceleratorOptions {
  PrecisionMode mixed_precision = PrecisionMode::f32;  ///< of forward and backward
  /// Micro-batches of a step. 0: those of the plugin's configuration, else 1.
  int64_t gradient_accumulation_steps = 0;
  dist::Strategy strategy = dist::Strategy::no_shard;  ///< what is sharded over ranks
  uint64_t seed = 42;                                  ///< of first weights
  /// Options of the run by a configuration of DeepSpeed. Without it, one from the environment
  /// (`plugin_from_environment`).
  std::optional<DeepSpeedPlugin> deepspeed_plugin = {};
  dist::World* world = nullptr;  ///< all ranks; null: this process is the only one
  dist::UnitPolicy units = {};   ///< of sharding
  std::ostream* out = nullptr;   ///< where `print` writes
  Logger log = {};               ///< gets what the engine reports (`EngineOptions::log`)
};

/// Stands for the optimizer where the plugin's configuration names it.
struct DummyOptim {};
/// Stands for the schedule where the plugin's configuration names it.
struct DummyScheduler {};

class Accelerator;

/// The model as the loop calls it: in the dtype of computation, sharded where the options say so.
template <class Model>
class AcceleratedModel {
 public:
  /// Made by `Accelerator::prepare`.
  AcceleratedModel(Accelerator& accelerator, Model& model, std::shared_ptr<Engine<Model>> engine)
      : accelerator_(&accelerator), model_(&model), engine_(std::move(engine)) {}
  /// The model's forward, as `Engine`'s.
  template <class... Inputs>
  decltype(auto) operator()(Inputs&&... inputs);
  /// Training or evaluation.
  /// @{
  void train() { model_->train(); }
  void eval() { model_->eval(); }
  /// @}
  /// The parameters, which may be shards.
  ParameterList parameters() const { return model_->parameters(); }
  /// The model itself.
  Model& module() const { return *model_; }

 private:
  Accelerator* accelerator_;
  Model* model_;
  std::shared_ptr<Engine<Model>> engine_;
};

/// The optimizer as the loop calls it: it updates at the last micro-batch of a step.
class AcceleratedOptimizer {
 public:
  /// Made by `Accelerator::prepare`.
  explicit AcceleratedOptimizer(Accelerator& accelerator) : accelerator_(&accelerator) {}
  /// Ends a micro-batch; at the last one of a step updates, and advances the schedule. Throws ConfigError
  /// without `backward` before it, and as `EngineCore::step`.
  void step();
  /// After `step`, or before a forward: nothing, since an update has removed the gradients, and those of the
  /// step's other micro-batches are still needed. Throws ConfigError between `backward` and `step`, where it
  /// would remove what `step` is to use.
  void zero_grad() const;
  /// Whether the last `step` at the end of a step left the parameters as they were, since loss scaling met
  /// gradients that are not finite.
  bool step_was_skipped() const;
  /// The optimizer itself.
  optim::Optimizer& optimizer() const;

 private:
  Accelerator* accelerator_;
};

/// What `Accelerator::prepare` returns, for a structured binding.
template <class Model>
struct Accelerated {
  AcceleratedModel<Model> model;   ///< called in place of the model
  AcceleratedOptimizer optimizer;  ///< stepped in place of the optimizer
  data::DataLoader loader;         ///< this rank's share
};

/// Accelerate's interface to the engine, for loops that are written for one device:
///
///     training::Accelerator accelerator({.strategy = dist::Strategy::full_shard, .world = &world});
///     auto [model, optimizer, loader] = accelerator.prepare(
///         net, [](const ParameterList& p) { return std::make_unique<optim::AdamW>(p, 1e-3); }, data_loader);
///     for (auto& [x, y] : loader) {
///       const Variable loss = nn::cross_entropy(model(x), y);
///       accelerator.backward(loss);
///       optimizer.step();
///       optimizer.zero_grad();
///     }
///
/// The optimizer is given as a function of the parameters, since these are shards by then. It has one model.
class Accelerator {
 public:
  /// Throws ConfigError for a negative number of micro-batches, and as `plugin_from_environment`.
  explicit Accelerator(AcceleratorOptions options = {});
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  /// Shards the model, gives it values on its device where it has none, makes the optimizer, and a loader of
  /// this rank's share: each rank computes batches of `loader`'s size, and an incomplete last one is left
  /// out. The model must outlive the Accelerator, and this what is returned. All ranks call it together.
  /// Throws ConfigError for a second model, for a configuration with another micro-batch size than the
  /// loader's, for a DummyOptim or DummyScheduler without an entry in the configuration, and as
  /// `training::prepare` and the constructor of the engine.
  /// @{
  template <class Model>
  Accelerated<Model> prepare(Model& model, OptimizerMaker optimizer, const data::DataLoader& loader,
                             std::optional<optim::Schedule> schedule = {}) {
    auto engine = std::make_shared<Engine<Model>>(
        model, engine_options(std::move(optimizer), std::move(schedule), loader.options()));
    engine_ = engine;
    gradient_clip_ = engine->config().gradient_clip;
    return {AcceleratedModel<Model>(*this, model, engine), AcceleratedOptimizer(*this), share_of(loader)};
  }
  template <class Model>
  Accelerated<Model> prepare(Model& model, DummyOptim, const data::DataLoader& loader) {
    return prepare(model, OptimizerMaker(), loader);
  }
  template <class Model>
  Accelerated<Model> prepare(Model& model, DummyOptim, const data::DataLoader& loader, DummyScheduler) {
    Accelerated<Model> prepared = prepare(model, DummyOptim(), loader);
    require<ConfigError>(
        engine().schedule().has_value(),
        "Accelerator::prepare: expected a scheduler in the plugin's configuration, got none; "
        "leave DummyScheduler out");
    return prepared;
  }
  // clang-format off
  /// An error that says what to write.
  template <class Model>
  void prepare(Model&, optim::Optimizer&, const data::DataLoader&) = delete;  // an optimizer is made after sharding: pass a function of the parameters that makes it
  // clang-format on
  /// @}

  /// The gradients of a micro-batch's mean loss, divided by the number of micro-batches, and scaled. Throws
  /// ConfigError before `prepare`, and for a second call before `optimizer.step()`: add the losses up.
  void backward(const Variable& loss);
  /// Limits the norm of all gradients in the `optimizer.step()` that follows, over all shards. Throws
  /// ConfigError unless it stands between `backward` and that step, and for a negative norm.
  void clip_grad_norm(double max_norm);
  /// The norm of all gradients in the last update, before clipping.
  double grad_norm() const { return engine().global_grad_norm(); }
  /// Whether the micro-batch that runs, or ended last, is the last one of its step.
  bool sync_gradients() const { return sync_gradients_; }
  /// Marks a micro-batch, until the result is destroyed: `const auto micro_batch = accelerator.accumulate();`
  /// as Accelerate's `with accelerator.accumulate(model)`. Steps are counted without it too. Throws
  /// ConfigError where one is open, and where the micro-batch before has gradients without
  /// `optimizer.step()`.
  [[nodiscard]] std::shared_ptr<const void> accumulate();

  /// The rows of all ranks one after another, in rank order: (n, ...) on each of W ranks gives (W n, ...), a
  /// number (W). All ranks call it together, with equal shapes. Throws MismatchError where they differ.
  /// @{
  Tensor gather(const Tensor& values) const;
  Tensor gather(const Variable& values) const { return gather(values.value()); }
  /// @}
  /// Writes the parts and a line break to `AcceleratorOptions::out`, on the main process. Throws ConfigError
  /// without a stream.
  template <class... Parts>
  void print(const Parts&... parts) const {
    require<ConfigError>(options_.out != nullptr,
                         "Accelerator::print: expected a stream (AcceleratorOptions::out), got none");
    if (is_main_process()) *options_.out << text(parts...) << std::endl;
  }
  /// Waits until all ranks have called it.
  void wait_for_everyone() const;

  /// Model, optimizer, schedule, loss scale and counters as the checkpoint of this step in the run's folder;
  /// returns the checkpoint's folder. All ranks call it together, at the end of a step. Throws as
  /// `EngineCore::save_checkpoint`, and ConfigError before `prepare`.
  std::string save_state(const std::string& folder);
  /// Fills them from a checkpoint, or from the latest one of a run's folder. Throws as
  /// `EngineCore::load_checkpoint`; then nothing has changed.
  void load_state(const std::string& folder);

  /// Rank 0 of all, and rank 0 of its machine; the number of this rank, and of all ranks.
  /// @{
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return !options_.world || options_.world->local_rank() == 0; }
  int process_index() const { return options_.world ? options_.world->rank() : 0; }
  int num_processes() const { return options_.world ? options_.world->size() : 1; }
  /// @}
  /// The device of this rank.
  Device device() const { return options_.world ? options_.world->device() : cpu(); }
  /// Whether a configuration of DeepSpeed gives the options.
  bool uses_deepspeed() const { return options_.deepspeed_plugin.has_value(); }
  /// The engine. Throws ConfigError before `prepare`.
  EngineCore& engine() const;

 private:
  template <class Model>
  friend class AcceleratedModel;
  friend class AcceleratedOptimizer;

  EngineOptions engine_options(OptimizerMaker optimizer, std::optional<optim::Schedule> schedule,
                               const data::DataLoader::Options& loader) const;
  data::DataLoader share_of(const data::DataLoader& loader) const;
  void begin_micro_batch();
  void end_micro_batch();

  AcceleratorOptions options_;
  std::shared_ptr<EngineCore> engine_;
  double gradient_clip_ = 0;    // of the configuration
  bool has_gradients_ = false;  // of a micro-batch that has not ended
  bool sync_gradients_ = true, step_was_skipped_ = false;
  std::weak_ptr<const void> micro_batch_;  // of `accumulate`
};

template <class Model>
template <class... Inputs>
decltype(auto) AcceleratedModel<Model>::operator()(Inputs&&... inputs) {
  if (model_->is_training()) accelerator_->begin_micro_batch();
  return (*engine_)(std::forward<Inputs>(inputs)...);
}

}  // namespace tessera::training
