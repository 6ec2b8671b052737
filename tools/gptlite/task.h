#pragma once

#include <memory>

#include "data/text/corpus.h"
#include "dist/train/trainer/trainer.h"
#include "models/gpt.h"
#include "tools/gptlite/options.h"

namespace tessera::gptlite {

/// GPT-lite as a task: the loss of windows of text, AdamW with weight decay of matrices, and the cosine of
/// the preset. Logs "loss" of each step and "val_loss", the mean over all targets.
class GptTask : public training::Task {
 public:
  /// A model that has no values yet.
  explicit GptTask(const Run& run);
  /// A model that has values.
  GptTask(const Run& run, std::unique_ptr<models::Gpt> gpt);

  /// The model.
  const models::Gpt& gpt() const { return *gpt_; }

  nn::Module& module() override { return *gpt_; }
  /// Throws NonFiniteError, before anything changes, for a loss that is not finite. The ranks of a sharded
  /// model throw together later, by the gradients' norm.
  Variable training_step(const data::Batch& batch, int64_t index) override;
  void validation_step(const data::Batch& batch, int64_t index) override;
  nn::LayeredModel layered_model() override;
  dist::MicroBatch stage_batch(const data::Batch& batch) override;
  void stage_validation_loss(double loss, const data::Batch& batch) override;
  training::OptimizerSetup configure_optimizers(const ParameterList& parameters) override;

 private:
  Variable loss_of(const data::Batch& batch);

  Run run_;
  std::unique_ptr<models::Gpt> gpt_;
};

/// The windows of a text that a run trains on, random ones, and those of its evaluations.
class TextModule : public training::DataModule {
 public:
  /// How the loss of a text is computed. The same options and number of threads give the same bits.
  struct Evaluation {
    int64_t batch_size = 12;  ///< sequences at once, on each rank
    int64_t batches = 0;      ///< 0: the whole text; else nanoGPT's estimate, the mean over random batches
  };
  /// `corpus` must outlive this. Without `evaluation` there is none.
  TextModule(const data::Corpus& corpus, const Run& run, std::optional<Evaluation> evaluation);

  std::optional<training::LoaderSpec> train_dataloader() override;
  /// Windows of the whole text follow one another without overlap, the last one is shorter, and every token
  /// but the first is a target once.
  std::optional<training::LoaderSpec> val_dataloader() override;

 private:
  const data::Corpus& corpus_;
  Run run_;
  std::optional<Evaluation> evaluation_;
};

/// The options that follow from those of a run: steps, sharding, precision, micro-batches, clipping, seed.
training::TrainerOptions trainer_options(const Run& run, dist::World* world);

/// The training batches of a rank, a pure function of the step.
std::shared_ptr<const data::BatchSource> make_batches(const data::Corpus& corpus, const Run& run,
                                                      int rank = 0);

}  // namespace tessera::gptlite
