#include "dist/train/accelerate/accelerator.h"

#include "tensor/ops/shaping.h"

namespace tessera::training {

Accelerator::Accelerator(AcceleratorOptions options) : options_(std::move(options)) {
  require<ConfigError>(options_.gradient_accumulation_steps >= 0,
                       "Accelerator: gradient_accumulation_steps: expected 0 or more, got ",
                       options_.gradient_accumulation_steps);
  options_.deepspeed_plugin = plugin_from_environment(std::move(options_.deepspeed_plugin));
}

EngineCore& Accelerator::engine() const {
  require<ConfigError>(engine_ != nullptr, "Accelerator: expected `prepare` before this call");
  return *engine_;
}

EngineOptions Accelerator::engine_options(OptimizerMaker optimizer, std::optional<optim::Schedule> schedule,
                                          const data::DataLoader::Options& loader) const {
  require<ConfigError>(
      engine_ == nullptr,
      "Accelerator::prepare: expected one model, got a second one; make another Accelerator");
  TrainingConfig program;
  program.micro_batch_size = loader.batch_size;
  program.accumulation_steps = options_.gradient_accumulation_steps;
  program.precision = options_.mixed_precision;
  program.strategy = options_.strategy;
  program.seed = options_.seed;
  InitializeOptions initialize{.config = program,
                               .optimizer = std::move(optimizer),
                               .schedule = std::move(schedule),
                               .world = options_.world,
                               .units = options_.units,
                               .log = options_.log};
  if (const auto& plugin = options_.deepspeed_plugin) {
    initialize.defaults = program;
    std::visit([&](const auto& config) { initialize.config = config; }, plugin->config);
  }
  EngineOptions engine = training::prepare(initialize).engine;
  require<ConfigError>(engine.config.micro_batch_size == loader.batch_size,
                       "Accelerator::prepare: the configuration's train_micro_batch_size_per_gpu is ",
                       engine.config.micro_batch_size, ": expected the loader's batch_size ",
                       loader.batch_size, ", or \"auto\"");
  return engine;
}

data::DataLoader Accelerator::share_of(const data::DataLoader& loader) const {
  data::DataLoader::Options options = loader.options();
  options.batch_size *= num_processes();
  options.rank = process_index();
  options.world_size = num_processes();
  options.drop_last = true;
  return loader.with(options);
}

void Accelerator::begin_micro_batch() {
  sync_gradients_ = engine().is_gradient_accumulation_boundary();
}

void Accelerator::backward(const Variable& loss) {
  EngineCore& engine = this->engine();
  require<ConfigError>(!has_gradients_,
                       "Accelerator::backward: expected optimizer.step() after the backward before; of "
                       "several losses, add them up");
  begin_micro_batch();
  engine.backward(loss);
  has_gradients_ = true;
}

void Accelerator::clip_grad_norm(double max_norm) {
  EngineCore& engine = this->engine();
  require<ConfigError>(has_gradients_,
                       "Accelerator::clip_grad_norm: expected it between backward and optimizer.step()");
  engine.set_gradient_clip(max_norm);
}

void Accelerator::end_micro_batch() {
  EngineCore& engine = this->engine();
  require<ConfigError>(has_gradients_, "optimizer.step(): expected accelerator.backward(loss) before it");
  has_gradients_ = false;
  const bool updated = engine.step();
  if (sync_gradients_) step_was_skipped_ = !updated;
  engine.set_gradient_clip(gradient_clip_);
}

std::shared_ptr<const void> Accelerator::accumulate() {
  engine();
  require<ConfigError>(micro_batch_.expired(), "Accelerator::accumulate: another micro-batch is open");
  require<ConfigError>(!has_gradients_,
                       "Accelerator::accumulate: expected optimizer.step() at the end of the micro-batch "
                       "before");
  begin_micro_batch();
  auto open = std::make_shared<const int>();
  micro_batch_ = open;
  return open;
}

Tensor Accelerator::gather(const Tensor& values) const {
  const Tensor own = (values.ndim() == 0 ? values.reshape({1}) : values).contiguous();
  if (num_processes() == 1) return own;
  Shape shape = own.shape();
  shape[0] *= num_processes();
  const Tensor all = Tensor::empty(shape, own.dtype(), own.device());
  options_.world->communicator().all_gather(all, own).wait();
  return all;
}

void Accelerator::wait_for_everyone() const {
  if (options_.world) options_.world->communicator().barrier().wait();
}

std::string Accelerator::save_state(const std::string& folder) {
  return engine().save_checkpoint(folder);
}

void Accelerator::load_state(const std::string& folder) {
  engine().load_checkpoint(folder);
}

void AcceleratedOptimizer::step() {
  accelerator_->end_micro_batch();
}

void AcceleratedOptimizer::zero_grad() const {
  require<ConfigError>(!accelerator_->has_gradients_,
                       "optimizer.zero_grad(): expected it after optimizer.step(), or before the forward; "
                       "here it would remove what step() is to use");
}

bool AcceleratedOptimizer::step_was_skipped() const {
  return accelerator_->step_was_skipped_;
}

optim::Optimizer& AcceleratedOptimizer::optimizer() const {
  return accelerator_->engine().optimizer();
}

}  // namespace tessera::training
