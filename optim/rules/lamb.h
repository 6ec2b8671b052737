#pragma once

#include <array>

#include "optim/plain_optimizer.h"

namespace tessera::optim {

/// Options of Lamb, with the paper's values where it has them.
struct LambOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the means of g and of g^2
  double eps = 1e-6;                           ///< added to the root of the second, after its bias correction
  double weight_decay = 0.0;                   ///< times the parameter, added to Adam's change
  bool maximize = false;                       ///< climb instead of descending
};

/// LAMB (You et al. 2020, algorithm 2): Adam's change of each parameter, scaled to the parameter's norm (the
/// function phi is the identity). State: exp_avg and exp_avg_sq. Over shards the norms are sums over all
/// ranks, in f64: one collective a step, which every rank calls; until then a step keeps the changes of its
/// shards. Throws ConfigError for options out of range, for shards in a list without a reducer, and as
/// `Optimizer` does.
class Lamb : public PlainOptimizer<LambOptions> {
 public:
  /// One group with all parameters, also by their learning rate alone, or several groups.
  /// @{
  explicit Lamb(const ParameterList& parameters, const Options& options = {})
      : Lamb({{parameters, options}}) {}
  Lamb(const ParameterList& parameters, Number auto lr)
      : Lamb(parameters, Options{.lr = static_cast<double>(lr)}) {}
  explicit Lamb(const std::vector<ParameterGroup<Options>>& groups);
  /// @}

 protected:
  std::vector<StateTensor> state_tensors(int) const override { return {{"exp_avg", 0}, {"exp_avg_sq", 1}}; }
  void step_parameter(const PlainParameter& p, const Options& options) const override;
  void finish_step() const override;

 private:
  /// The change of a shard, which waits for the norms of the full parameter.
  struct Change {
    size_t index;  // of the parameter
    Tensor value, change;
    double lr;
  };
  mutable std::vector<Change> changes_;  // of the running step; empty without shards
};

}  // namespace tessera::optim
