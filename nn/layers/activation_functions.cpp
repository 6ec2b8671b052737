#include "nn/layers/activation_functions.h"

#include "tensor/random/random_context.h"

namespace tessera::nn {

Variable RReLU::forward(const Variable& x) const {
  if (!is_training()) return rrelu(x, o.lower, o.upper);
  return rrelu(x, o.lower, o.upper, true, next_random_key(full_name()));
}

Variable Softmax2d::forward(const Variable& x) const {
  require<ShapeError>(x.ndim() == 3 || x.ndim() == 4, "nn::Softmax2d '", full_name(),
                      "': expected an input (N, C, H, W) or (C, H, W), got ", x);
  return softmax(x, -3);
}

}  // namespace tessera::nn
