#include "nn/layers/images/channel_norms.h"

#include "autograd/functions/view.h"
#include "autograd/recompute/first_run.h"
#include "tensor/ops/elementwise/binary.h"

namespace tessera::nn {
namespace {

Variable or_undefined(const Variable* x) {
  return x ? *x : Variable();
}
Tensor value_of(const Variable* x) {
  return x ? x->value() : Tensor();
}

}  // namespace

GroupNorm::GroupNorm(GroupNormOptions options) : Layer(options) {
  require<ConfigError>(o.num_groups >= 1 && o.num_channels >= 1 && o.num_channels % o.num_groups == 0,
                       "nn::GroupNorm: expected groups that divide the channels, got ", o.num_groups,
                       " groups and ", o.num_channels, " channels");
}

Variable GroupNorm::forward(const Variable& x) const {
  require<ShapeError>(x.ndim() >= 2 && x.size(1) == o.num_channels, "nn::GroupNorm '", full_name(),
                      "': expected an input (N, ", o.num_channels, ", ...); x is ", x);
  return group_norm(x, o.num_groups, or_undefined(weight), or_undefined(bias), o.epsilon);
}

template <int dims>
Variable InstanceNorm<dims>::forward(const Variable& x) const {
  const int channel_dim = x.ndim() - dims - 1;
  require<ShapeError>((channel_dim == 0 || channel_dim == 1) && x.size(channel_dim) == this->o.num_features,
                      "nn::", kind(), " '", this->full_name(), "': expected an input (N, ",
                      this->o.num_features, ", ...) or (", this->o.num_features, ", ...) of ", dims,
                      " further dimensions; x is ", x);
  const Variable batch = channel_dim == 0 ? unsqueeze(x, 0) : x;
  const bool by_input = this->is_training() || !running_mean;
  if (this->is_training() && num_batches_tracked && !x.device().is_meta() && !is_recomputing())
    ops::add_(num_batches_tracked->value(), 1);
  const Variable y = instance_norm(batch, value_of(running_mean), value_of(running_var), or_undefined(weight),
                                   or_undefined(bias), by_input, this->o.momentum, this->o.epsilon);
  return channel_dim == 0 ? squeeze(y, 0) : y;
}

template struct InstanceNorm<1>;
template struct InstanceNorm<2>;
template struct InstanceNorm<3>;

}  // namespace tessera::nn
