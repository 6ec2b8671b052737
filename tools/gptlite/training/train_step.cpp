#include "tools/gptlite/training/train_step.h"

#include <cmath>
#include <optional>

#include "data/text/windows.h"
#include "nn/mixed_precision.h"
#include "optim/clip.h"
#include "optim/gradient_squares.h"
#include "optim/parameter_groups.h"
#include "tensor/error.h"
#include "tensor/profile/span.h"
#include "tensor/random/random_context.h"

namespace tessera::gptlite {
namespace {

/// The value of a scalar; 0 on meta.
double value_or_zero(const Tensor& scalar) {
  return scalar.is_meta() ? 0.0 : scalar.item();
}

/// Forward and backward of one micro-batch, a `share` of the batch. Returns its mean loss. With `checks_loss`
/// a loss that is not finite throws here; ranks of a sharded model throw together, by the gradients' norm.
double accumulate(models::Gpt& gpt, const data::Batch& micro_batch, double share, uint64_t seed,
                  bool checks_loss) {
  begin_random_step(seed, micro_batch.step, micro_batch.samples);
  const Variable loss = forward_loss(gpt, micro_batch);
  const double value = value_or_zero(loss.value());
  require<NonFiniteError>(!checks_loss || std::isfinite(value), "step ", micro_batch.step + 1,
                          ": the loss is ", value, "; no parameter was changed by this step");
  if (share == 1.0)
    loss.backward();
  else
    loss.backward(Variable(Tensor::scalar(static_cast<float>(share)).to(loss.device())));
  return value;
}

/// The gradients' norm, and the coefficient that clips them (undefined without clipping).
optim::ClipCoefficient clipping(const ParameterList& parameters, const optim::GradientSquares* squares,
                                double largest, int64_t step) {
  try {
    const optim::NormOptions options{.error_if_nonfinite = true, .squares = squares};
    if (largest > 0) return optim::clip_coefficient(parameters, largest, options);
    return {optim::grad_norm(parameters, options), {}};
  } catch (const NonFiniteError& error) {
    throw NonFiniteError(
        text("step ", step + 1, ": ", error.what(), "; no parameter was changed by this step"));
  }
}

}  // namespace

std::unique_ptr<optim::AdamW> make_optimizer(const models::Gpt& gpt, const models::Preset& preset) {
  return std::make_unique<optim::AdamW>(
      optim::decay_groups(gpt.parameters(), optim::AdamWOptions{.lr = preset.learning_rate,
                                                                .betas = {preset.beta1, preset.beta2},
                                                                .weight_decay = preset.weight_decay}));
}

void prepare(models::Gpt& gpt, const Run& run) {
  if (const DType dtype = compute_dtype(run.dtype); dtype != f32) nn::use_mixed_precision(gpt, dtype);
  gpt.blocks.set_checkpointing(run.checkpointing);
}

optim::Schedule make_schedule(const models::Preset& preset) {
  return optim::cosine({.lr = preset.learning_rate,
                        .min_lr = preset.min_learning_rate,
                        .warmup_steps = preset.warmup_steps,
                        .steps = preset.steps});
}

std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run, int rank) {
  return std::make_shared<data::RandomWindows>(
      corpus.train, data::RandomWindows::Options{.block = run.preset.model.block_size,
                                                 .batch_size = run.preset.batch_size,
                                                 .seed = run.seed,
                                                 .rank = rank,
                                                 .world_size = run.parallel.world_size});
}

Variable forward_loss(models::Gpt& gpt, const data::Batch& micro_batch) {
  const SpanScope span(SpanKind::phase, "forward");
  const Device device = gpt.wte.weight.device();
  return gpt.loss(micro_batch.x.to(device), micro_batch.y.to(device));
}

StepResult train_step(models::Gpt& gpt, optim::AdamW& adam, const data::Batch& batch, const Run& run,
                      dist::Sharding* sharding) {
  StepResult result;
  std::optional<optim::GradientSquares> squares;  // summed as the last micro-batch finishes each gradient
  const int64_t size = std::min(run.micro_batch_size, batch.size());
  const double share = static_cast<double>(size) / static_cast<double>(batch.size());
  for (int64_t first = 0; first < batch.size(); first += size) {
    const bool is_whole = size == batch.size(), is_last = first + size >= batch.size();
    if (is_last && !sharding) squares.emplace(adam.parameters());
    std::optional<dist::Accumulation> accumulation;
    if (sharding && !is_last) accumulation.emplace(*sharding, run.parallel.accumulate_communication);
    result.loss += share * accumulate(gpt, is_whole ? batch : batch.micro_batch(first, size), share, run.seed,
                                      !sharding);
  }
  const optim::ClipCoefficient clip =
      clipping(adam.parameters(), squares ? &*squares : nullptr, run.preset.gradient_clip, batch.step);
  result.gradient_norm = value_or_zero(clip.norm);
  adam.step({.clip = clip.coefficient});
  adam.zero_grad();
  return result;
}

}  // namespace tessera::gptlite
