#pragma once  // internal

#include <optional>
#include <unordered_map>
#include <vector>

#include "autograd/parameter_list.h"
#include "tensor/ops/matmul.h"

namespace tessera::optim {

/// While it lives, the squares of each parameter's gradient are summed as soon as a backward has accumulated
/// it completely: by the product that computes it (`ProductSquaresScope`), else by a pass over values that,
/// but for those of large matrices, are still in the cache. A norm that is given the sums then does not read
/// these gradients again. Small gradients, and those of a model of which all are
/// still in the cache, are left to the norm, which sums them in one pass. Sums of products are added in
/// another order, so a norm may differ in its last bits. With several backwards a step, make it for the last
/// one. For a list with a reducer it does nothing: that norm is summed over shards, which are complete only
/// after the reduction over ranks. Nor does it for gradients on a device: the host would wait for their sums.
///
///     const optim::GradientSquares squares(adam.parameters());
///     loss.backward();
///     const auto clip = optim::clip_coefficient(adam.parameters(), 1.0, {.squares = &squares});
class GradientSquares {
 public:
  /// Registers a hook on each parameter that requires a gradient; the destructor removes them.
  explicit GradientSquares(const ParameterList& parameters);
  ~GradientSquares();
  GradientSquares(const GradientSquares&) = delete;
  GradientSquares& operator=(const GradientSquares&) = delete;

  /// The sum of squares of the gradient of `parameter`; nothing where none was taken, or where the gradient
  /// has changed since.
  std::optional<double> sum(const Variable& parameter) const;

 private:
  struct Sum {
    Tensor gradient;  // undefined before the first sum; keeps the memory, so that no other gradient takes it
    uint64_t version = 0;
    double value = 0;
  };

  std::optional<ops::ProductSquaresScope> products_;
  std::unordered_map<const VariableImpl*, Sum> sums_;  // per parameter; no entry is added after construction
  std::vector<HookHandle> hooks_;
};

}  // namespace tessera::optim
