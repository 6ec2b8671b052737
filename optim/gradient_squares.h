#pragma once  // internal

#include <optional>
#include <vector>

#include "autograd/parameter_list.h"
#include "tensor/ops/matmul.h"

namespace tessera::optim {

/// While it lives, the squares of each parameter's gradient are summed as soon as it is complete: by the
/// product that computes it (`ProductSquaresScope`), else by a pass over values that, but for those of large
/// matrices, are still in the cache. The sums are noted at the gradients (`Tensor::noted_squares`), and a
/// norm then does not read these again. Small gradients, and those of a model of which all are still in the
/// cache, are left to the norm, which sums them in one pass. Sums of products are added in another order, so
/// a norm may differ in its last bits. Of sharded gradients the sums are those of the ranges that their norm
/// adds up, taken when the ranks have reduced them, with its bits. On a device nothing is summed: the host
/// would wait for it.
///
///     const optim::GradientSquares squares(adam.parameters());
///     loss.backward();
///     const auto clip = optim::clip_coefficient(adam.parameters(), 1.0);
class GradientSquares {
 public:
  /// Registers a hook on each parameter that requires a gradient, or asks the list's reducer; the destructor
  /// ends both. A gradient is complete after the last of `backwards` backwards that reach it.
  explicit GradientSquares(const ParameterList& parameters, int64_t backwards = 1);
  ~GradientSquares();
  GradientSquares(const GradientSquares&) = delete;
  GradientSquares& operator=(const GradientSquares&) = delete;

 private:
  std::optional<ops::ProductSquaresScope> products_;
  std::vector<HookHandle> hooks_;
  std::vector<int64_t> left_;  // by parameter: backwards until its gradient is complete
  ParameterList reduced_;      // the list, if it has a reducer
};

}  // namespace tessera::optim
