#pragma once

#include <optional>
#include <vector>

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// While it lives, the squares of each parameter's gradient are summed as soon as a backward has accumulated
/// it completely, when its values are still in the cache. `grad_norm` and clipping then use the sums, which
/// have the bits that they would compute, and do not read the gradients again. With several backwards a step,
/// make it for the last one. For a list with a reducer it does nothing: that norm is summed over shards,
/// which are complete only after the reduction over ranks.
///
///     const optim::GradientSquares squares(adam.parameters());
///     loss.backward();
///     const auto clip = optim::clip_coefficient(adam.parameters(), 1.0);
class GradientSquares {
 public:
  /// Registers a hook on each parameter that requires a gradient; the destructor removes them.
  explicit GradientSquares(const ParameterList& parameters);
  ~GradientSquares();
  GradientSquares(const GradientSquares&) = delete;
  GradientSquares& operator=(const GradientSquares&) = delete;

 private:
  std::vector<HookHandle> hooks_;
};

/// The sum of squares of the gradient of `parameter`; nothing where none was taken, or where the gradient has
/// changed since.
std::optional<double> gradient_squares(const Variable& parameter);

}  // namespace tessera::optim
