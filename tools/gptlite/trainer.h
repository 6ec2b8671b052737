#pragma once

#include <memory>

#include "data/batch.h"
#include "data/corpus.h"
#include "dist/fsdp/shard.h"
#include "models/gpt.h"
#include "optim/adam.h"
#include "optim/schedule.h"
#include "tools/gptlite/run.h"

/// The parts of training, from which `train` (tools/gptlite/train.h) is put together.
namespace tessera::gptlite {

/// AdamW with the recipe's options: weight decay for parameters of two and more dimensions, none for the
/// others.
std::unique_ptr<optim::AdamW> make_optimizer(const models::Gpt& gpt, const models::Preset& recipe);

/// Makes a model compute as the run says: in its dtype, computing again what it does not keep. After its
/// first numbers, before its optimizer.
void prepare(models::Gpt& gpt, const Run& run);

/// The recipe's learning rates.
optim::Schedule make_schedule(const models::Preset& recipe);

/// A rank's batches of the run: its share of random windows of the training text, by (seed, step, sample).
std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run,
                                                      int rank = 0);

/// The mean loss of a micro-batch, recorded.
Variable forward_loss(models::Gpt& gpt, const data::Batch& part);

/// What one step computed.
struct StepResult {
  double loss = 0;           ///< mean over the batch, this rank's share of it
  double gradient_norm = 0;  ///< before clipping
};

/// One optimizer step at the optimizer's learning rate: forward and backward of the batch in micro-batches,
/// clipping, update. Throws NonFiniteError, the parameters being as they were, when the loss or the gradient
/// is not finite. On meta it is a plan of the step: all numbers are 0. Of a sharded model `batch` is this
/// rank's share, and gradients are averaged over ranks.
StepResult train_step(models::Gpt& gpt, optim::AdamW& adam, const data::Batch& batch, const Run& run,
                      dist::Sharding* sharding = nullptr);

}  // namespace tessera::gptlite
