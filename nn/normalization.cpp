#include "nn/normalization.h"

#include "autograd/functions/normalization.h"

namespace tessera::nn {

Variable LayerNorm::forward(const Variable& x) {
  const int axes = o.normalized_shape.rank();
  bool fits = x.rank() >= axes;
  for (int i = 1; fits && i <= axes; ++i) fits = x.size(-i) == o.normalized_shape[axes - i];
  require<ShapeError>(fits, "nn::LayerNorm '", full_name(), "': the input's last dimensions are to be ",
                      o.normalized_shape, "; x is ", to_string(x));
  return layer_norm(x, weight, bias ? *bias : Variable(), o.epsilon);
}

Variable RMSNorm::forward(const Variable& x) {
  require<ShapeError>(x.rank() >= 1 && x.size(-1) == o.width, "nn::RMSNorm '", full_name(),
                      "': the input's last dimension is to be ", o.width, "; x is ", to_string(x));
  return rms_norm(x, weight, o.epsilon);
}

}  // namespace tessera::nn
