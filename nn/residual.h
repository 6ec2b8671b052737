#pragma once

#include "autograd/functions/dropout.h"

namespace tessera::nn {

/// A residual stream and what a branch adds to it: x + dropout(delta), not yet added. The next operation adds
/// it: a norm in the pass that normalizes (`LayerNorm`), or `sum()`. With an undefined delta the sum is x.
struct Residual {
  Variable x;                ///< the stream
  Variable delta = {};       ///< what is added, of x's shape; undefined for nothing
  DropoutMask dropout = {};  ///< of delta; by default it drops nothing

  /// x + dropout(delta), in one pass.
  Variable sum() const { return delta.defined() ? add_dropout(x, delta, dropout) : x; }

  /// Calls `visit` with x and delta, so that a module's hooks see them (nn/layer.h).
  template <class Visit>
  void for_each_variable(const Visit& visit) {
    visit(x);
    visit(delta);
  }
};

}  // namespace tessera::nn
