#pragma once  // internal

#include "autograd/functions/layers/loss.h"
#include "autograd/functions/reduction.h"

namespace tessera {

/// Throws ValueError naming `where` for a value that is no reduction.
inline void check_reduction(const char* where, LossReduction reduction) {
  require<ValueError>(reduction <= LossReduction::none, where,
                      ": expected a reduction to mean, to sum or to none, got the value ",
                      static_cast<int>(reduction));
}

/// The mean or the sum of the losses, or themselves.
inline Variable reduced(const char* where, const Variable& losses, LossReduction reduction) {
  check_reduction(where, reduction);
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::sum ? sum(losses) : mean(losses);
}

/// Throws ShapeError naming `where` unless both have one shape.
inline void require_one_shape(const char* where, const Variable& x, const Variable& target) {
  require<ShapeError>(x.shape() == target.shape(), where, ": expected a target of x's shape ", x.shape(),
                      ", got ", target.shape());
}

/// Throws ValueError naming `where` and the option for a NaN.
void check_option(const char* where, const char* option, double value);

}  // namespace tessera
