#include "tools/gptlite/trainer.h"

#include <cmath>
#include <optional>

#include "data/windows.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "optim/gradient_squares.h"
#include "optim/parameter_groups.h"
#include "tensor/error.h"
#include "tensor/profile/span.h"
#include "tensor/random/random_context.h"

namespace tessera::gptlite {
namespace {

/// 0 for what has none.
double number_of(const Tensor& scalar) {
  return scalar.is_meta() ? 0.0 : scalar.item();
}

/// Forward and backward of one micro-batch, whose mean counts as `share` of the batch's. Returns its mean.
/// Where this rank is not `alone`, all learn together from the gradients' norm that a loss is not finite.
double accumulate(models::Gpt& gpt, const data::Batch& part, double share, uint64_t seed, bool alone) {
  begin_random_step(seed, part.step, part.samples);
  const Variable loss = forward_loss(gpt, part);
  const double value = number_of(loss.value());
  require<NonFiniteError>(!alone || std::isfinite(value), "step ", part.step + 1, ": the loss is ", value,
                          "; no parameter was changed by this step");
  if (share == 1.0)
    loss.backward();
  else
    loss.backward(Variable(Tensor::scalar(static_cast<float>(share)).to(loss.device())));
  return value;
}

/// The gradients' norm, and the coefficient that clips them (undefined without clipping).
optim::ClipCoefficient clipping(const ParameterList& parameters, double largest, int64_t step) {
  try {
    const optim::NormOptions options{.error_if_nonfinite = true};
    if (largest > 0) return optim::clip_coefficient(parameters, largest, options);
    return {optim::grad_norm(parameters, options), {}};
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(
        text("step ", step + 1, ": ", error.what(), "; no parameter was changed by this step"));
  }
}

}  // namespace

std::unique_ptr<optim::AdamW> make_optimizer(const models::Gpt& gpt, const models::Preset& recipe) {
  return std::make_unique<optim::AdamW>(
      optim::decay_groups(gpt.parameters(), optim::AdamWOptions{.lr = recipe.learning_rate,
                                                                .betas = {recipe.beta1, recipe.beta2},
                                                                .weight_decay = recipe.weight_decay}));
}

void prepare(models::Gpt& gpt, const Run& run) {
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) nn::use_mixed_precision(gpt, dtype);
  gpt.blocks.set_checkpointing(run.checkpointing);
}

optim::Schedule make_schedule(const models::Preset& recipe) {
  return optim::cosine({.lr = recipe.learning_rate,
                        .min_lr = recipe.min_learning_rate,
                        .warmup_steps = recipe.warmup_steps,
                        .steps = recipe.steps});
}

std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run, int rank) {
  return std::make_shared<data::RandomWindows>(
      corpus.train, data::RandomWindows::Options{.block = run.recipe.model.block_size,
                                                 .batch_size = run.recipe.batch_size,
                                                 .seed = run.seed,
                                                 .rank = rank,
                                                 .world = run.parallel.world_size});
}

Variable forward_loss(models::Gpt& gpt, const data::Batch& part) {
  const SpanScope span(SpanKind::phase, "forward");
  const Device device = gpt.wte.weight.device();
  return gpt(part.x.to(device), part.y.to(device));
}

StepResult train_step(models::Gpt& gpt, optim::AdamW& adam, const data::Batch& batch, const Run& run,
                      dist::Sharding* sharding) {
  StepResult result;
  const int64_t size = std::min(run.micro_batch_size, batch.size());
  const double share = static_cast<double>(size) / static_cast<double>(batch.size());
  for (int64_t first = 0; first < batch.size(); first += size) {
    const bool whole = size == batch.size(), last = first + size >= batch.size();
    std::optional<optim::GradientSquares> squares;  // summed as the last micro-batch finishes each gradient
    if (last && !sharding) squares.emplace(adam.parameters());
    std::optional<dist::Accumulation> accumulation;
    if (sharding && !last) accumulation.emplace(*sharding, run.parallel.accumulate_communication);
    result.loss +=
        share * accumulate(gpt, whole ? batch : batch.part(first, size), share, run.seed, !sharding);
  }
  const optim::ClipCoefficient clip = clipping(adam.parameters(), run.recipe.gradient_clip, batch.step);
  result.gradient_norm = number_of(clip.norm);
  adam.step({.clip = clip.coefficient});
  adam.zero_grad();
  return result;
}

}  // namespace tessera::gptlite
