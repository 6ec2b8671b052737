#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <string>

#include "dist/train/trainer/callback.h"

namespace tessera::training {

/// Options of GradientNorms.
struct GradientNormsOptions {
  int64_t every_steps = 1;  ///< steps between reports
  double p = 2;             ///< the norm's power
  int depth = -1;  ///< names of modules that are kept of a path: 1 for "blocks" of "blocks.0.mlp"; -1: all
};

/// Reports the norm of the gradients of each layer, `grad_norm/PATH` for the module at that path, and
/// `grad_norm` of all: before clipping, without the loss scale, of the step's gradients over all ranks. The
/// parameters of the model's root are under "grad_norm/(root)". Of shards the norm is that of the full
/// gradients. All ranks make the callback with the same options.
class GradientNorms : public Callback {
 public:
  /// Throws ConfigError for fewer than one step, a power that is not above 0 or not finite, and a depth
  /// that is 0 or below -1.
  explicit GradientNorms(GradientNormsOptions options = {});

  /// Where norms are computed, and where they are reported.
  /// @{
  void on_before_optimizer_step(Trainer& trainer, Task& task) override;
  void on_train_batch_end(Trainer& trainer, Task& task, const data::Batch& batch, int64_t index) override;
  /// @}
  /// By layer, of the newest step that was reported.
  const std::map<std::string, double>& norms() const { return norms_; }
  /// Of all layers.
  double total() const { return total_; }

 private:
  GradientNormsOptions options_;
  std::map<std::string, double> norms_;
  double total_ = 0;
  bool is_due_ = false;
};

}  // namespace tessera::training
