#pragma once

#include <memory>
#include <string>

#include "data/batch.h"
#include "dist/train/trainer/callback.h"

namespace tessera::gptlite {

/// Writes the first weights and every batch of a run to a folder, for tools/bench/parity_pytorch.py, before
/// the first step. Throws ConfigError where the folder cannot be made.
class ParityExport : public training::Callback {
 public:
  ParityExport(std::string folder, std::shared_ptr<const data::BatchSource> batches, int64_t steps);
  void on_train_start(training::Trainer& trainer, training::Task& task) override;

 private:
  std::string folder_;
  std::shared_ptr<const data::BatchSource> batches_;
  int64_t steps_;
};

}  // namespace tessera::gptlite
