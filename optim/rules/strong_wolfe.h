#pragma once  // internal

#include <cstdint>

#include "tensor/function_ref.h"
#include "tensor/tensor.h"

namespace tessera::optim {

/// A point on a line of search: the start plus `t` times the direction.
struct LinePoint {
  double t;         ///< the step length
  double loss;      ///< of the parameters there
  double slope;     ///< the derivative of the loss along the direction
  Tensor gradient;  ///< of all parameters, flat
};

/// When a line search ends.
struct WolfeOptions {
  double sufficient_decrease = 1e-4;  ///< c1 of Armijo's condition
  double curvature = 0.9;             ///< c2 of the curvature condition
  double least_change = 1e-9;         ///< the search ends when the bracket moves no parameter by more
  double direction_size = 1.0;        ///< the largest magnitude in the direction
  int64_t max_evaluations = 25;       ///< after the first
};

/// A step length that satisfies the strong Wolfe conditions, or the best one found (Nocedal and Wright 2006,
/// algorithms 3.5 and 3.6, with the cubic interpolation and the safeguards of minFunc and PyTorch). `start`
/// has t = 0, `first` is the length tried first. Adds the number of evaluations to `evaluations`.
LinePoint strong_wolfe(FunctionRef<LinePoint(double t)> evaluate, const LinePoint& start, double first,
                       const WolfeOptions& options, int64_t& evaluations);

}  // namespace tessera::optim
