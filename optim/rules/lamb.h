#pragma once

#include <array>
#include <limits>

#include "optim/plain_optimizer.h"

namespace tessera::optim {

/// Where Lamb corrects the bias of its means in the first steps; t is the step, from 1.
enum class LambBiasCorrection {
  means,  ///< in the means, before the norms, as the paper
  rate,   ///< in the rate, which is multiplied by sqrt(1 - betas[1]^t) / (1 - betas[0]^t), as DeepSpeed
  none    ///< nowhere
};

/// Options of Lamb, with the paper's values where it has them.
struct LambOptions {
  double lr = 1e-3;                            ///< the first learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the means of g and of g^2
  double eps = 1e-6;                           ///< added to the root of the second, after its bias correction
  double weight_decay = 0.0;                   ///< times the parameter, added to Adam's change
  bool maximize = false;                       ///< climb instead of descending
  double min_coeff = 0.0;                      ///< the least factor of the change, norm over norm
  double max_coeff = std::numeric_limits<double>::infinity();      ///< the largest
  LambBiasCorrection bias_correction = LambBiasCorrection::means;  ///< where; it is not saved
};

/// LAMB (You et al. 2020, algorithm 2): Adam's change of each parameter, scaled to the parameter's norm (the
/// function phi is the identity). With min_coeff = 0.01, max_coeff = 10, eps = 1e-8 and the correction of the
/// rate it is DeepSpeed's. State: exp_avg and exp_avg_sq. Over shards the norms are sums over all ranks, in
/// f64: one collective a step, which every rank calls; until then a step keeps the changes of its shards.
/// Throws ConfigError for options out of range, for shards in a list without a reducer, and as `Optimizer`
/// does.
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
    double lr, min_coeff, max_coeff;
  };
  mutable std::vector<Change> changes_;  // of the running step; empty without shards
};

}  // namespace tessera::optim
