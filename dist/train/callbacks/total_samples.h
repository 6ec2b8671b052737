#pragma once  // internal

#include "data/batch.h"
#include "dist/train/trainer/trainer.h"

namespace tessera::training {

/// The samples of a batch on all ranks together, without padding.
inline int64_t total_samples(const data::Batch& batch, const Trainer& trainer) {
  return batch.total_unpadded_size > 0 ? batch.total_unpadded_size
                                       : batch.unpadded_size() * trainer.world_size();
}

/// Whether a callback with this `every_steps` reports after the step that just ended.
inline bool is_report_step(const Trainer& trainer, int64_t every_steps) {
  return every_steps > 0 && trainer.is_at_step_end() && trainer.global_step() % every_steps == 0;
}

}  // namespace tessera::training
