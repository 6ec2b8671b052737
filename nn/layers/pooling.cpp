#include "nn/layers/pooling.h"

namespace tessera::nn {
namespace {

void check(const Module& layer, const Variable& x, int dims) {
  require<ShapeError>(x.ndim() == dims + 1 || x.ndim() == dims + 2, "nn::", layer.kind(), " '",
                      layer.full_name(), "': expected an input of ", dims + 1, " or ", dims + 2,
                      " dimensions; x is ", x);
}

/// The function of `dims` dimensions out of three.
template <int dims, class One, class Two, class Three>
constexpr auto choose(One one, Two two, Three three) {
  if constexpr (dims == 1)
    return one;
  else if constexpr (dims == 2)
    return two;
  else
    return three;
}

}  // namespace

template <int dims>
Variable MaxPool<dims>::forward(const Variable& x) const {
  check(*this, x, dims);
  const MaxPoolOptions& o = this->o;
  return choose<dims>(&max_pool1d, &max_pool2d, &max_pool3d)(x, o.kernel_size, o.stride, o.padding,
                                                             o.dilation, o.ceil_mode);
}

template <int dims>
ValuesAndIndices<Variable> MaxPool<dims>::with_indices(const Variable& x) const {
  const auto body = [this](const Variable& in) {
    check(*this, in, dims);
    const MaxPoolOptions& o = this->o;
    const auto pool =
        choose<dims>(&max_pool1d_with_indices, &max_pool2d_with_indices, &max_pool3d_with_indices);
    auto [values, indices] = pool(in, o.kernel_size, o.stride, o.padding, o.dilation, o.ceil_mode);
    return std::pair<Variable, Tensor>(values, indices);
  };
  auto [values, indices] = this->call(rerunnable(body), x);
  return {values, indices};
}

template <int dims>
Variable MaxUnpool<dims>::forward(const Variable& x, const Tensor& indices, const Shape& output_size) const {
  check(*this, x, dims);
  const MaxUnpoolOptions& o = this->o;
  return choose<dims>(&max_unpool1d, &max_unpool2d, &max_unpool3d)(x, indices, o.kernel_size, o.stride,
                                                                   o.padding, output_size);
}

template <int dims>
Variable AvgPool<dims>::forward(const Variable& x) const {
  check(*this, x, dims);
  const AvgPoolOptions& o = this->o;
  require<ConfigError>(dims > 1 || o.divisor_override == 0, "nn::AvgPool1d '", this->full_name(),
                       "': expected no divisor_override, got ", o.divisor_override);
  if constexpr (dims == 1)
    return avg_pool1d(x, o.kernel_size, o.stride, o.padding, o.ceil_mode, o.count_include_pad);
  else
    return choose<dims>(&avg_pool1d, &avg_pool2d, &avg_pool3d)(
        x, o.kernel_size, o.stride, o.padding, o.ceil_mode, o.count_include_pad, o.divisor_override);
}

template <int dims>
Variable AdaptiveMaxPool<dims>::forward(const Variable& x) const {
  check(*this, x, dims);
  return choose<dims>(&adaptive_max_pool1d, &adaptive_max_pool2d, &adaptive_max_pool3d)(x,
                                                                                        this->o.output_size);
}

template <int dims>
ValuesAndIndices<Variable> AdaptiveMaxPool<dims>::with_indices(const Variable& x) const {
  const auto body = [this](const Variable& in) {
    check(*this, in, dims);
    auto [values, indices] =
        choose<dims>(&adaptive_max_pool1d_with_indices, &adaptive_max_pool2d_with_indices,
                     &adaptive_max_pool3d_with_indices)(in, this->o.output_size);
    return std::pair<Variable, Tensor>(values, indices);
  };
  auto [values, indices] = this->call(rerunnable(body), x);
  return {values, indices};
}

template <int dims>
Variable AdaptiveAvgPool<dims>::forward(const Variable& x) const {
  check(*this, x, dims);
  return choose<dims>(&adaptive_avg_pool1d, &adaptive_avg_pool2d, &adaptive_avg_pool3d)(x,
                                                                                        this->o.output_size);
}

template <int dims>
Variable LPPool<dims>::forward(const Variable& x) const {
  check(*this, x, dims);
  const LPPoolOptions& o = this->o;
  return choose<dims>(&lp_pool1d, &lp_pool2d, &lp_pool3d)(x, o.norm_type, o.kernel_size, o.stride,
                                                          o.ceil_mode);
}

template struct MaxPool<1>;
template struct MaxPool<2>;
template struct MaxPool<3>;
template struct MaxUnpool<1>;
template struct MaxUnpool<2>;
template struct MaxUnpool<3>;
template struct AvgPool<1>;
template struct AvgPool<2>;
template struct AvgPool<3>;
template struct AdaptiveMaxPool<1>;
template struct AdaptiveMaxPool<2>;
template struct AdaptiveMaxPool<3>;
template struct AdaptiveAvgPool<1>;
template struct AdaptiveAvgPool<2>;
template struct AdaptiveAvgPool<3>;
template struct LPPool<1>;
template struct LPPool<2>;
template struct LPPool<3>;

}  // namespace tessera::nn
