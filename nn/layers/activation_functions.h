#pragma once

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/activation_function.h"
#include "autograd/functions/layers/softmax.h"
#include "nn/layer.h"

/// Further activations as modules, with PyTorch's names: each is the function of the same name
/// (tensor/composed/activations.h), whose parameters are its options. All take x of any shape and give y of
/// x's shape and dtype, except where a dimension is named.
namespace tessera::nn {

/// Options of LeakyReLU.
struct LeakyReLUOptions {
  double negative_slope = 0.01;  ///< of negative x
};
/// x for x > 0, else negative_slope x.
struct LeakyReLU : Layer<LeakyReLU, LeakyReLUOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit LeakyReLU(Options options = {}) : Layer(options) {}
  explicit LeakyReLU(double negative_slope) : Layer(Options{negative_slope}) {}
  /// @}
  std::string describe_options() const override { return text(o.negative_slope); }
  /// `leaky_relu(x, o.negative_slope)`.
  Variable forward(const Variable& x) const { return leaky_relu(x, o.negative_slope); }
};

/// Options of ELU and CELU.
struct ELUOptions {
  double alpha = 1;  ///< minus the limit for small x
};
/// x for x > 0, else alpha (e^x - 1) (Clevert et al. 2016).
struct ELU : Layer<ELU, ELUOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit ELU(Options options = {}) : Layer(options) {}
  explicit ELU(double alpha) : Layer(Options{alpha}) {}
  /// @}
  std::string describe_options() const override { return text(o.alpha); }
  /// `elu(x, o.alpha)`.
  Variable forward(const Variable& x) const { return elu(x, o.alpha); }
};
/// x for x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017).
struct CELU : Layer<CELU, ELUOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit CELU(Options options = {}) : Layer(options) {}
  explicit CELU(double alpha) : Layer(Options{alpha}) {}
  /// @}
  std::string describe_options() const override { return text(o.alpha); }
  /// `celu(x, o.alpha)`.
  Variable forward(const Variable& x) const { return celu(x, o.alpha); }
};

/// ELU with the alpha and scale that keep mean 0 and variance 1 (Klambauer et al. 2017).
struct SELU : Layer<SELU> {
  /// `selu(x)`.
  Variable forward(const Variable& x) const { return selu(x); }
};

/// x tanh(log(1 + e^x)) (Misra 2019).
struct Mish : Layer<Mish> {
  /// `mish(x)`.
  Variable forward(const Variable& x) const { return mish(x); }
};

/// x hardsigmoid(x) (Howard et al. 2019).
struct Hardswish : Layer<Hardswish> {
  /// `hardswish(x)`.
  Variable forward(const Variable& x) const { return hardswish(x); }
};

/// x / 6 + 1/2, limited to [0, 1].
struct Hardsigmoid : Layer<Hardsigmoid> {
  /// `hardsigmoid(x)`.
  Variable forward(const Variable& x) const { return hardsigmoid(x); }
};

/// Options of Hardtanh.
struct HardtanhOptions {
  double min_val = -1;  ///< the smallest result
  double max_val = 1;   ///< the largest one
};
/// x, limited to [min_val, max_val].
struct Hardtanh : Layer<Hardtanh, HardtanhOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Hardtanh(Options options = {}) : Layer(options) {}
  Hardtanh(double min_val, double max_val) : Layer(Options{min_val, max_val}) {}
  /// @}
  std::string describe_options() const override { return text(o.min_val, ", ", o.max_val); }
  /// `hardtanh(x, o.min_val, o.max_val)`.
  Variable forward(const Variable& x) const { return hardtanh(x, o.min_val, o.max_val); }
};

/// x, limited to [0, 6].
struct ReLU6 : Layer<ReLU6> {
  /// `relu6(x)`.
  Variable forward(const Variable& x) const { return relu6(x); }
};

/// Options of Softplus.
struct SoftplusOptions {
  double beta = 1;        ///< the steepness
  double threshold = 20;  ///< above it, beta x counts as linear
};
/// log(1 + e^(beta x)) / beta.
struct Softplus : Layer<Softplus, SoftplusOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Softplus(Options options = {}) : Layer(options) {}
  explicit Softplus(double beta, double threshold = 20) : Layer(Options{beta, threshold}) {}
  /// @}
  std::string describe_options() const override { return text(o.beta, ", ", o.threshold); }
  /// `softplus(x, o.beta, o.threshold)`.
  Variable forward(const Variable& x) const { return softplus(x, o.beta, o.threshold); }
};

/// x / (1 + |x|).
struct Softsign : Layer<Softsign> {
  /// `softsign(x)`.
  Variable forward(const Variable& x) const { return softsign(x); }
};

/// Options of Softshrink and Hardshrink.
struct ShrinkOptions {
  double lambda = 0.5;  ///< up to this distance from 0 the result is 0
};
/// x moved towards 0 by lambda; 0 within it.
struct Softshrink : Layer<Softshrink, ShrinkOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Softshrink(Options options = {}) : Layer(options) {}
  explicit Softshrink(double lambda) : Layer(Options{lambda}) {}
  /// @}
  std::string describe_options() const override { return text(o.lambda); }
  /// `softshrink(x, o.lambda)`.
  Variable forward(const Variable& x) const { return softshrink(x, o.lambda); }
};
/// x where |x| is above lambda, else 0.
struct Hardshrink : Layer<Hardshrink, ShrinkOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Hardshrink(Options options = {}) : Layer(options) {}
  explicit Hardshrink(double lambda) : Layer(Options{lambda}) {}
  /// @}
  std::string describe_options() const override { return text(o.lambda); }
  /// `hardshrink(x, o.lambda)`.
  Variable forward(const Variable& x) const { return hardshrink(x, o.lambda); }
};

/// x - tanh(x).
struct Tanhshrink : Layer<Tanhshrink> {
  /// `tanhshrink(x)`.
  Variable forward(const Variable& x) const { return tanhshrink(x); }
};

/// Options of Threshold.
struct ThresholdOptions {
  double threshold = 0;  ///< x above it stays
  double value = 0;      ///< the result for the others
};
/// x where it is above the threshold, else the value.
struct Threshold : Layer<Threshold, ThresholdOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Threshold(Options options) : Layer(options) {}
  Threshold(double threshold, double value) : Layer(Options{threshold, value}) {}
  /// @}
  std::string describe_options() const override { return text(o.threshold, ", ", o.value); }
  /// `threshold(x, o.threshold, o.value)`.
  Variable forward(const Variable& x) const { return tessera::threshold(x, o.threshold, o.value); }
};

/// log(sigmoid(x)).
struct LogSigmoid : Layer<LogSigmoid> {
  /// `logsigmoid(x)`.
  Variable forward(const Variable& x) const { return logsigmoid(x); }
};

/// Options of PReLU.
struct PReLUOptions {
  int64_t num_parameters = 1;  ///< 1, or the channels: dimension 1 of the input
  double init = 0.25;          ///< the first value of each slope
};
/// x for x > 0, else weight x, with a learned slope for all elements or for each channel (He et al. 2015).
/// Throws ShapeError for an input of other channels.
struct PReLU : Layer<PReLU, PReLUOptions> {
  Variable& weight = parameter("weight", {o.num_parameters}, init::constant(o.init));  ///< (num_parameters)

  /// Declares the parameter on meta.
  /// From options, or from their values in order.
  /// @{
  explicit PReLU(Options options = {}) : Layer(options) {}
  explicit PReLU(int64_t num_parameters, double init = 0.25) : Layer(Options{num_parameters, init}) {}
  /// @}
  std::string describe_options() const override { return text(o.num_parameters); }
  /// `prelu(x, weight)`: x (N, C, ...), or of any shape where there is one parameter.
  Variable forward(const Variable& x) const { return prelu(x, weight); }
};

/// Options of RReLU.
struct RReLUOptions {
  double lower = 1.0 / 8;  ///< the smallest slope
  double upper = 1.0 / 3;  ///< the largest one
};
/// x for x > 0, else a x: in training a is drawn for each element, uniform in [lower, upper); in evaluation
/// it is their mean (Xu et al. 2015). The slopes are a function of (seed, this module's full name, call,
/// element), so a recomputation draws them again.
struct RReLU : Layer<RReLU, RReLUOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit RReLU(Options options = {}) : Layer(options) {}
  RReLU(double lower, double upper) : Layer(Options{lower, upper}) {}
  /// @}
  std::string describe_options() const override { return text(o.lower, ", ", o.upper); }
  /// `rrelu(x, o.lower, o.upper, is_training(), key)`.
  Variable forward(const Variable& x) const;
};

/// Options of LogSoftmax and Softmin.
struct LogSoftmaxOptions {
  int64_t dim = -1;  ///< counted from the end when negative
};
/// log(softmax(x)) over one dimension.
struct LogSoftmax : Layer<LogSoftmax, LogSoftmaxOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit LogSoftmax(Options options = {}) : Layer(options) {}
  explicit LogSoftmax(int64_t dim) : Layer(Options{dim}) {}
  /// @}
  std::string describe_options() const override { return text(o.dim); }
  /// `log_softmax(x, o.dim)`.
  Variable forward(const Variable& x) const { return log_softmax(x, o.dim); }
};
/// softmax(-x) over one dimension.
struct Softmin : Layer<Softmin, LogSoftmaxOptions> {
  /// From options, or from their values in order.
  /// @{
  explicit Softmin(Options options = {}) : Layer(options) {}
  explicit Softmin(int64_t dim) : Layer(Options{dim}) {}
  /// @}
  std::string describe_options() const override { return text(o.dim); }
  /// `softmin(x, o.dim)`.
  Variable forward(const Variable& x) const { return softmin(x, o.dim); }
};

/// The softmax over the channels at each position: x (N, C, H, W) or (C, H, W). Throws ShapeError.
struct Softmax2d : Layer<Softmax2d> {
  /// `softmax(x, -3)`.
  Variable forward(const Variable& x) const;
};

}  // namespace tessera::nn
