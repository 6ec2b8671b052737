#pragma once

#include "autograd/functions/dropout.h"

namespace tessera::nn {

/// A residual stream and what a branch adds to it: x + dropout(delta), not yet added. The next operation adds
/// it: a norm in the pass that normalizes (`LayerNorm`), or `sum()`. With an undefined delta the sum is x.
struct Residual {
  Variable x;
  Variable delta = {};
  DropoutMask dropout = {};

  /// x + dropout(delta), in one pass.
  Variable sum() const { return delta.defined() ? add_dropout(x, delta, dropout) : x; }

  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(x);
    visit(delta);
  }
};

}  // namespace tessera::nn
