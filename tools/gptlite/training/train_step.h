#pragma once

#include <memory>

#include "data/batch.h"
#include "data/text/corpus.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "optim/rules/adam.h"
#include "optim/schedules/cosine.h"
#include "tools/gptlite/run.h"

/// The functions of a training step, which `train` (tools/gptlite/training/train.h) calls.
namespace tessera::gptlite {

/// AdamW with the preset's options: weight decay for parameters of two and more dimensions, none for the
/// others.
std::unique_ptr<optim::AdamW> make_optimizer(const models::Gpt& gpt, const models::Preset& preset);

/// Sets a model's dtype of computation and its activation checkpointing to the run's. Called after the model
/// has its initial values, before its optimizer is made.
void prepare(models::Gpt& gpt, const Run& run);

/// The preset's learning rates.
optim::Schedule make_schedule(const models::Preset& preset);

/// A rank's batches: its share of random windows of the training text, a function of (seed, step, sample).
std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run,
                                                      int rank = 0);

/// The mean loss of a micro-batch, recorded.
Variable forward_loss(models::Gpt& gpt, const data::Batch& micro_batch);

/// The results of one step.
struct StepResult {
  double loss = 0;           ///< mean over this rank's share of the batch
  double gradient_norm = 0;  ///< before clipping
};

/// One optimizer step at the optimizer's learning rate: forward and backward of the batch in micro-batches,
/// clipping, update. Throws NonFiniteError, before any parameter changes, where the loss or the gradient is
/// not finite. On meta it is a plan of the step: all results are 0. For a sharded model `batch` is this
/// rank's share, and gradients are averaged over ranks.
StepResult train_step(models::Gpt& gpt, optim::AdamW& adam, const data::Batch& batch, const Run& run,
                      dist::Sharding* sharding = nullptr);

}  // namespace tessera::gptlite
