// The steps of a pipeline: losses and weights, what the interpreter runs, and the sums at a step's end.

#include <cmath>
#include <optional>
#include <utility>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/grad_mode.h"
#include "dist/fsdp/engine.h"
#include "dist/pipeline/run/interpreter.h"
#include "dist/pipeline/run/pipeline.h"
#include "tensor/error.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera::dist {

/// Sums of earlier steps have been reduced already: they wait until this step's are. Sharding keeps them
/// apart itself.
void Pipeline::set_aside_tied() {
  for (Tied& tied : tied_) {
    if (!tied.parameter.requires_grad()) continue;
    *tied.is_reached = false;
    tied.hook = tied.parameter.register_post_accumulate_grad_hook(
        [is_reached = tied.is_reached](const Variable&) { *is_reached = true; });
    if (sharding_) continue;
    const Variable gradient = tied.parameter.grad();
    tied.before = gradient.defined() ? gradient.value() : Tensor();
    tied.parameter.set_grad({});
  }
}

/// Sums the gradients of tied parameters over their stages. As on one device, one that no stage has reached
/// has none.
void Pipeline::reduce_tied() {
  for (Tied& tied : tied_) {
    const Variable& parameter = tied.parameter;
    tied.hook.remove();
    if (!parameter.requires_grad()) continue;
    const CallOptions call{.unit = parameter.name()};
    const Tensor reached = Tensor::from<int32_t>({*tied.is_reached});
    tied.ranks->all_reduce(reached, Reduction::max, call).wait();
    const Tensor before = std::exchange(tied.before, {});
    if (reached.data<int32_t>()[0] == 0) {
      if (before.defined()) parameter.set_grad(before);
      continue;
    }
    // A backward makes the zeros of a stage that has none, so that its sharding counts them too.
    if (!*tied.is_reached)
      parameter.view(parameter.shape())
          .backward(ops::zeros(parameter.shape(), parameter.dtype(), parameter.device()));
    tied.ranks
        ->all_reduce(parameter.grad().value(), Reduction::sum,
                     {.unit = parameter.name(), .traffic = Traffic::gradients})
        .wait();
    parameter.grad().value().bump_version();  // squares noted of this stage's gradient alone
    if (before.defined()) ops::add_(parameter.grad().value(), before);
  }
}

/// Before each action. Units below the root gather their parameters for their own calls. The root has no call
/// here: what is in no other unit is held from UNSHARD to RESHARD.
void Pipeline::run_sharding(const PipelineAction& action) {
  if (is_compute(action.kind)) return sharding_->engine().begin_stage(action.stage);
  if (action.kind == ActionKind::unshard)
    unsharded_[action.stage] = std::make_unique<Unsharded>(*sharding_, &model_);
  else if (action.kind == ActionKind::reshard)
    unsharded_.erase(action.stage);
  // REDUCE_GRAD: at the end of the step, after tied parameters have the sums of their stages.
}

/// For forwards alone: what the calls of units do not gather, or all where a strategy keeps it gathered.
std::unique_ptr<Unsharded> Pipeline::hold_parameters() {
  if (!sharding_) return nullptr;
  const bool frees = traits_of(sharding_->options().strategy).frees_after_forward;
  return std::make_unique<Unsharded>(*sharding_, frees ? &model_ : nullptr);
}

/// Throws where a step cannot begin. Until its end the pipeline counts as one that an exception has ended.
Pipeline::Running Pipeline::begin_run() {
  require<ConfigError>(!is_running_, "Pipeline: a step, or an evaluation, of this pipeline runs already");
  require<ConfigError>(!is_broken_,
                       "Pipeline: an exception ended an earlier step, and its messages may still be on their "
                       "way to other ranks: end the program and start again from a checkpoint");
  require<ConfigError>(
      static_cast<bool>(sharding_) == static_cast<bool>(model_.store()),
      "Pipeline: the model was sharded by dist::shard: call `shard` of the pipeline instead");
  is_broken_ = true;
  return Running(is_running_);
}

/// In the dtype of the parameters, as the root of a sharded model casts its inputs.
nn::LayerValues Pipeline::first_inputs(const MicroBatch& batch) const {
  nn::LayerValues inputs(batch.inputs.begin(), batch.inputs.end());
  if (!sharding_ || !sharding_->options().precision.compute || is_autocast_enabled()) return inputs;
  for (Variable& input : inputs)
    if (is_floating(input.dtype())) input = cast(input, *sharding_->options().precision.compute);
  return inputs;
}

/// Sums over the stages and averages over their copies. The calls also hold the ranks' numbers of
/// micro-batches against each other.
double Pipeline::combine(double value, size_t micro_batches) {
  const Tensor sum = Tensor::from({value});
  const std::string unit = text("step of ", micro_batches, " micro-batches");
  ranks_->all_reduce(sum, Reduction::sum, {.unit = unit}).wait();
  if (Communicator* same = copies()) same->all_reduce(sum, Reduction::avg, {.unit = unit}).wait();
  return sum.data<double>()[0];
}

/// The weights of the micro-batches on the rank of the last stage, and their sum on all. Gradients are
/// averaged over copies of the stages, and so is this: the mean of all counts each micro-batch by its weight.
double Pipeline::total_weight(std::span<const MicroBatch> micro_batches, std::vector<double>& weights) {
  double total = 0;
  if (is_last_)
    for (const MicroBatch& batch : micro_batches) {
      weights.push_back(batch.weight ? *batch.weight : options_.weight ? options_.weight(batch.targets) : 1);
      require<ValueError>(weights.back() >= 0 && std::isfinite(weights.back()),
                          "Pipeline: expected finite weights of at least 0, got ", weights.back(),
                          " for micro-batch ", weights.size() - 1);
      total += weights.back();
    }
  return combine(total, micro_batches.size());
}

nn::LayerValues Pipeline::loss_of(const nn::LayerValues& values, const MicroBatch& batch) const {
  const Variable result = layers_.loss.run(values, batch.targets);
  require<ShapeError>(result.defined() && result.numel() == 1, "the loss: expected a scalar, got ",
                      result.defined() ? to_string(result.shape()) : "nothing");
  return {result};
}

double Pipeline::broadcast_loss(double loss) {
  const Tensor shared = Tensor::from({loss});
  if (Communicator* same = copies(); same && is_last_)
    same->all_reduce(shared, Reduction::avg, {.unit = "loss"}).wait();
  ranks_->broadcast(shared, stage_ranks_.back(), {.unit = "loss"}).wait();
  return shared.data<double>()[0];
}

void Pipeline::gather_metrics(const StageMetrics& own) {
  const Tensor all = Tensor::empty({ranks_->size(), 3}, f64);
  ranks_
      ->all_gather(all, Tensor::from({own.seconds, own.busy_seconds, static_cast<double>(own.most_live)}),
                   {.unit = "metrics of the stages"})
      .wait();
  metrics_.clear();
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const double* row = all.data<double>() + 3 * rank;
    metrics_.push_back({row[0], row[1], static_cast<int64_t>(row[2])});
  }
}

RunInput Pipeline::run_input(std::span<const MicroBatch> micro_batches, bool records) {
  RunInput input{.ranks = *ranks_,
                 .stages = stage_layers_,
                 .stage_ranks = stage_ranks_,
                 .micro_batches = micro_batches,
                 .random = *random_,
                 .records = records};
  input.first_inputs = [this](const MicroBatch& batch) { return first_inputs(batch); };
  return input;
}

double Pipeline::train_step(std::span<const MicroBatch> micro_batches, double scale) {
  require<ConfigError>(sharding_ || !copies(), "Pipeline: ", copies() ? copies()->size() : 1,
                       " ranks have the same stages: call `shard` with a strategy, no_shard for copies");
  require<AutogradError>(grad_mode(),
                         "Pipeline::train_step: called under NoGrad; `evaluate` is without gradients");
  tables(static_cast<int>(std::ssize(micro_batches)));  // throws before anything begins
  const Running running = begin_run();
  const Tables& now = agreed_tables(micro_batches.size());
  std::vector<double> weights;
  const double total = total_weight(micro_batches, weights);
  const auto share = [&](int m) { return total > 0 ? weights[static_cast<size_t>(m)] / total : 0; };
  double loss = 0;
  std::vector<Tensor> losses(micro_batches.size());
  RunInput input = run_input(micro_batches, true);
  input.finish = [&](int m, const nn::LayerValues& values) {
    return loss_of(values, micro_batches[static_cast<size_t>(m)]);
  };
  input.result = [&](int m, const nn::LayerValues& values) {
    losses[static_cast<size_t>(m)] = values[0].value();
    if (share(m) > 0) loss += share(m) * values[0].value().item<double>();
  };
  input.seed = [&](int m) {
    const Tensor& of = losses[static_cast<size_t>(m)];
    return nn::LayerValues{Variable(ops::full(of.shape(), share(m) * scale, of.dtype(), of.device()))};
  };
  if (sharding_) input.sharding = [this](const PipelineAction& action) { run_sharding(action); };
  set_aside_tied();
  StageMetrics metrics;
  {
    std::optional<NoSync> until_the_end;
    if (sharding_) until_the_end.emplace(*sharding_);
    Interpreter interpreter(input);
    interpreter.run(now.training);
    most_live_ = interpreter.most_live();
    metrics = {interpreter.seconds(), interpreter.busy_seconds(), static_cast<int64_t>(most_live_)};
    reduce_tied();
  }
  if (sharding_) sharding_->reduce_gradients();
  gather_metrics(metrics);
  const double mean = broadcast_loss(loss);
  is_broken_ = false;
  return mean;
}

double Pipeline::evaluate(std::span<const MicroBatch> micro_batches) {
  tables(static_cast<int>(std::ssize(micro_batches)));  // throws before anything begins
  const Running running = begin_run();
  const Tables& now = agreed_tables(micro_batches.size());
  std::vector<double> weights;
  const double total = total_weight(micro_batches, weights);
  double loss = 0;
  RunInput input = run_input(micro_batches, false);
  input.finish = [&](int m, const nn::LayerValues& values) {
    return loss_of(values, micro_batches[static_cast<size_t>(m)]);
  };
  input.result = [&](int m, const nn::LayerValues& values) {
    const double weight = weights[static_cast<size_t>(m)];
    if (weight > 0) loss += weight / total * values[0].value().item<double>();
  };
  const std::unique_ptr<Unsharded> held = hold_parameters();
  Interpreter(input).run(now.forward);
  const double mean = broadcast_loss(loss);
  is_broken_ = false;
  return mean;
}

std::vector<nn::LayerValues> Pipeline::forward(std::span<const MicroBatch> micro_batches) {
  tables(static_cast<int>(std::ssize(micro_batches)));  // throws before anything begins
  const Running running = begin_run();
  const Tables& now = agreed_tables(micro_batches.size());
  combine(0, micro_batches.size());
  std::vector<nn::LayerValues> results;
  RunInput input = run_input(micro_batches, false);
  if (layers_.result)
    input.finish = [&](int, const nn::LayerValues& values) { return layers_.result(values); };
  if (is_last_) results.resize(micro_batches.size());
  input.result = [&](int m, const nn::LayerValues& values) { results[static_cast<size_t>(m)] = values; };
  const std::unique_ptr<Unsharded> held = hold_parameters();
  Interpreter(input).run(now.forward);
  is_broken_ = false;
  return results;
}

}  // namespace tessera::dist
