#include "tensor/ops/elementwise/in_place.h"

#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/kernel.h"
#include "tensor/overlap.h"

namespace tessera::ops {

#define TESSERA_DEFINE(name)      \
  void name##_(const Tensor& x) { \
    unary_(UnaryOp::name, x);     \
  }
TESSERA_UNARY_IN_PLACE_OPS(TESSERA_DEFINE)
#undef TESSERA_DEFINE

void pow_(const Tensor& x, const Scalar& n) {
  binary_out(BinaryOp::pow, x, n, x);
}

void clamp_(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  require<ValueError>(low || high, "clamp_: expected a lower or an upper bound, got neither");
  if (low) binary_out(BinaryOp::maximum, x, *low, x);
  if (high) binary_out(BinaryOp::minimum, x, *high, x);
}

void clamp_min_(const Tensor& x, const Scalar& min) {
  binary_out(BinaryOp::maximum, x, min, x);
}
void clamp_max_(const Tensor& x, const Scalar& max) {
  binary_out(BinaryOp::minimum, x, max, x);
}

void zero_(const Tensor& x) {
  x.zero();
}

void copy_(const Tensor& x, const Tensor& y) {
  common_device("copy_", {&x, &y});
  require<ShapeError>(broadcast_shapes(x.shape(), y.shape(), "copy_") == x.shape(), "copy_: ", describe(y),
                      " does not broadcast to ", describe(x));
  if (y.dtype() == x.dtype()) return x.copy_from(y.expand(x.shape()));
  cast_out(y, x);
}

}  // namespace tessera::ops
