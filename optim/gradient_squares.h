#pragma once

#include <optional>
#include <vector>

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// While it lives, the squares of each parameter's gradient are summed as soon as a backward has added the
/// last part of it, when its numbers are still in the cache. `grad_norm` and clipping then find the sums, the
/// same bits that they would compute, and pass over no gradient again. With several backwards a step, make it
/// for the last one. A list with a reducer is left alone: its norm is summed over other pieces than whole
/// gradients, and these are complete only after their ranks have met.
///
///     const optim::GradientSquares squares(adam.parameters());
///     loss.backward();
///     const auto clip = optim::clip_coefficient(adam.parameters(), 1.0);
class GradientSquares {
 public:
  explicit GradientSquares(const ParameterList& parameters);
  ~GradientSquares();
  GradientSquares(const GradientSquares&) = delete;
  GradientSquares& operator=(const GradientSquares&) = delete;

 private:
  std::vector<HookHandle> hooks_;
};

/// The sum that was taken of the gradient of `parameter`; nothing where there is none, or where its numbers
/// have changed since.
std::optional<double> gradient_squares(const Variable& parameter);

}  // namespace tessera::optim
