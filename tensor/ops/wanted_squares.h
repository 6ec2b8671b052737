#pragma once  // internal

#include "tensor/tensor.h"

namespace tessera::ops {

/// While it lives, a product of this thread (one) sums the squares of its f32 result `out`, if a
/// `ProductSquaresScope` lives and the kernel has them at no pass of its own.
class WantedSquares {
 public:
  /// For a product of `operand`; an undefined `out` has none.
  WantedSquares(const Tensor& out, const Tensor& operand);
  ~WantedSquares();
  WantedSquares(const WantedSquares&) = delete;
  WantedSquares& operator=(const WantedSquares&) = delete;
  /// Notes the sum at `out`, after its version was raised.
  void note(const Tensor& out) const;
};

}  // namespace tessera::ops
