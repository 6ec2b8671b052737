#pragma once

#include <memory>

#include "data/batch.h"
#include "data/text/corpus.h"
#include "dist/train/engine/engine_core.h"
#include "models/gpt.h"
#include "tools/gptlite/run.h"

/// The functions of a training step, which `train` (tools/gptlite/training/train.h) calls.
namespace tessera::gptlite {

/// The engine that trains a run's model on one rank, sharded where there are ranks: AdamW with weight decay
/// for parameters of two and more dimensions, the preset's cosine schedule, the run's dtype of computation
/// and its activation checkpointing. Initial values are computed in place, so no rank ever holds more than
/// its shards; on meta there are none. All ranks call it together.
std::unique_ptr<training::EngineCore> make_engine(models::Gpt& gpt, const Run& run, Device device,
                                                  dist::World* world = nullptr);

/// A rank's batches: its share of random windows of the training text, a function of (seed, step, sample).
std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run,
                                                      int rank = 0);

/// The mean loss of a micro-batch, recorded.
Variable forward_loss(models::Gpt& gpt, const data::Batch& micro_batch);

/// One optimizer step: forward and backward of this rank's share of a batch in micro-batches, clipping,
/// update. Returns the mean loss of the share. Throws NonFiniteError, before any parameter changes, where the
/// loss or the gradient is not finite. On meta it is a plan of the step: all results are 0.
double train_step(training::EngineCore& engine, models::Gpt& gpt, const data::Batch& batch);

}  // namespace tessera::gptlite
