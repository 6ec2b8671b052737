#include "tensor/composed/elementwise/special.h"

#include <limits>

#include "tensor/functions.h"

namespace tessera {
using X = Tensor;
namespace {

const Tensor& values_of(const Tensor& x) {
  return x;
}

}  // namespace

Tensor heaviside(const Tensor& x, const Tensor& values) {
  return where(equal(x, Scalar(0)), values, cast(greater(x, Scalar(0)), x.dtype()));
}

Tensor clamp_min(const Tensor& x, const Tensor& min) {
  return maximum(x, min);
}

Tensor clamp_max(const Tensor& x, const Tensor& max) {
  return minimum(x, max);
}

}  // namespace tessera

#include "tensor/composed/elementwise/special.inc"
