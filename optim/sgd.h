#pragma once

#include "optim/fused_optimizer.h"

namespace tessera::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;  ///< factor of the velocity of the last step
  double dampening =
      0.0;  ///< the fraction of each gradient, except the first, that does not enter the velocity
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  bool nesterov = false;      ///< look ahead by one momentum; needs momentum and no dampening
};

/// Stochastic gradient descent, with momentum (state momentum_buffer) and Nesterov's variant as in Sutskever
/// et al. 2013. Throws ConfigError for options out of range, and as `Optimizer` does.
class SGD : public FusedOptimizer<ops::SgdGroup> {
 public:
  using Options = SGDOptions;
  explicit SGD(const ParameterList& parameters, const Options& options = {});
  explicit SGD(const std::vector<ParameterGroup<Options>>& groups);

 protected:
  std::vector<Slot> slots(int group) const override;
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override;
};

}  // namespace tessera::optim
