#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/variable.h"

namespace tessera {

/// A function under test: differentiable in those of its inputs that require a gradient.
using CheckedFunction = std::function<std::vector<Variable>(std::span<const Variable> inputs)>;

/// The step of the differences and the errors that are allowed.
struct GradcheckOptions {
  double step = 1e-6;      ///< of the central difference
  double absolute = 1e-6;  ///< allowed |analytic - numeric| ...
  double relative = 1e-5;  ///< ... plus this times |numeric|
};

/// What `gradcheck` found.
struct GradcheckResult {
  bool passed = true;        ///< every error is within the tolerances
  double largest_error = 0;  ///< largest |analytic - numeric|
  std::string message;       ///< where it failed first: input, element, both values
};

/// Compares the backward of `function` with central differences, for every element of every input that
/// requires a gradient. Throws DTypeError when such an input is not f64.
GradcheckResult gradcheck(const CheckedFunction& function, std::span<const Variable> inputs,
                          GradcheckOptions options = {});
/// The same for the backward of the backward.
GradcheckResult gradgradcheck(const CheckedFunction& function, std::span<const Variable> inputs,
                              GradcheckOptions options = {});

}  // namespace tessera
