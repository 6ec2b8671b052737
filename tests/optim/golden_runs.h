#pragma once

#include <json/value.h>

#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace tessera::test {

/// A file of tests/optim/goldens (see make_goldens.py).
class Goldens {
 public:
  explicit Goldens(const std::string& file);
  ~Goldens();
  std::vector<std::string> cases() const;
  /// The metadata of a case.
  Json::Value options(const std::string& name) const;
  Tensor tensor(const std::string& name) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// The problem of all golden runs: two parameters, `a` (7) and `b` (3, 4), minimise a quadratic with a factor
/// that changes with the step.
struct GoldenProblem {
  explicit GoldenProblem(const Goldens& goldens, DType dtype = f64);
  /// Sets the gradients of step t, from 0, in `gradient_dtype`.
  void set_gradients(int64_t t) const;

  ParameterList list_a, list_b;
  Variable a, b;

 private:
  Tensor target_a_, hessian_a_, target_b_, curvature_b_, wobble_;
};

/// The optimizer of a golden case, `a` in group 0 and `b` in group 1, with the case's options.
std::unique_ptr<optim::Optimizer> golden_optimizer(const Json::Value& options, const GoldenProblem& problem);

/// The largest |x - y| / max(|y|, 1e-3 of y's largest magnitude).
double relative_difference(const Tensor& x, const Tensor& y);

/// Whether two tensors have the same dtype, shape and bits. Both contiguous.
bool same_bits(const Tensor& x, const Tensor& y);

}  // namespace tessera::test
