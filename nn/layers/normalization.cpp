#include "nn/layers/normalization.h"

namespace tessera::nn {

void LayerNorm::check(const Variable& x) const {
  const int axes = o.normalized_shape.ndim();
  bool fits = x.ndim() >= axes;
  for (int i = 1; fits && i <= axes; ++i) fits = x.size(-i) == o.normalized_shape[axes - i];
  require<ShapeError>(fits, "nn::LayerNorm '", full_name(), "': expected the input's last dimensions to be ",
                      o.normalized_shape, "; x is ", x);
}

Variable LayerNorm::forward(const Variable& x) const {
  check(x);
  return layer_norm(x, weight, bias ? *bias : Variable(), o.epsilon);
}

SumAndNorm LayerNorm::fork_and_norm(const Variable& x) const {
  return add_dropout_and_norm(x, {});
}

SumAndNorm LayerNorm::add_dropout_and_norm(const Variable& x, const BeforeDropout& branch) const {
  const auto body = [this](const Variable& stream, const BeforeDropout& added) {
    check(stream);
    return add_layer_norm(stream, added.value, added.mask, weight, bias ? *bias : Variable(), o.epsilon);
  };
  return call(rerunnable(body), x, branch);
}

void RMSNorm::check(const Variable& x) const {
  require<ShapeError>(x.ndim() >= 1 && x.size(-1) == o.width, "nn::RMSNorm '", full_name(),
                      "': expected the input's last dimension to be ", o.width, "; x is ", x);
}

Variable RMSNorm::forward(const Variable& x) const {
  check(x);
  return rms_norm(x, weight, o.epsilon);
}

SumAndNorm RMSNorm::fork_and_norm(const Variable& x) const {
  return add_dropout_and_norm(x, {});
}

SumAndNorm RMSNorm::add_dropout_and_norm(const Variable& x, const BeforeDropout& branch) const {
  const auto body = [this](const Variable& stream, const BeforeDropout& added) {
    check(stream);
    return add_rms_norm(stream, added.value, added.mask, weight, o.epsilon);
  };
  return call(rerunnable(body), x, branch);
}

}  // namespace tessera::nn
