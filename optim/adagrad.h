#pragma once

#include "optim/fused_optimizer.h"

namespace tessera::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0.0;      ///< the rate of step t (from 0) is lr / (1 + t lr_decay)
  double eps = 1e-10;         ///< added to the root
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  double initial_accumulator_value = 0.0;
};

/// Adagrad (Duchi, Hazan and Singer 2011). State: sum, of all squared gradients. Throws ConfigError for
/// options out of range, and as `Optimizer` does.
class Adagrad : public FusedOptimizer<ops::AdagradGroup> {
 public:
  using Options = AdagradOptions;
  explicit Adagrad(const ParameterList& parameters, const Options& options = {});
  explicit Adagrad(const std::vector<ParameterGroup<Options>>& groups);

 protected:
  std::vector<Slot> slots(int group) const override;
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override;

 private:
  std::vector<double> initial_;  // value of the accumulators, per group
};

}  // namespace tessera::optim
