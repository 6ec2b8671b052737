#pragma once

#include "optim/fused_optimizer.h"

namespace tessera::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;        ///< decay of the running means
  double eps = 1e-8;          ///< added to the root
  double weight_decay = 0.0;  ///< times the parameter, added to the gradient
  double momentum = 0.0;
  bool centered = false;  ///< divide by the standard deviation instead of the root mean square
};

/// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013). State: square_avg, with momentum
/// momentum_buffer, centered grad_avg. Throws ConfigError for options out of range, and as `Optimizer` does.
class RMSprop : public FusedOptimizer<ops::RmspropGroup> {
 public:
  using Options = RMSpropOptions;
  explicit RMSprop(const ParameterList& parameters, const Options& options = {});
  explicit RMSprop(const std::vector<ParameterGroup<Options>>& groups);

 protected:
  std::vector<Slot> slots(int group) const override;
  void update(std::span<const ops::UpdateItem> items, const Tensor& clip) override;
};

}  // namespace tessera::optim
