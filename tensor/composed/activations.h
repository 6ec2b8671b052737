#pragma once

#include <cstdint>

#include "tensor/tensor.h"

/// Activation functions with PyTorch's names and parameters, each in one pass over memory. The same functions
/// of Variables are in autograd/functions/elementwise/activation_function.h: both are made from
/// activations.inc. `leaky_relu`, `elu`, `logsigmoid` and `mish` are declared in functions.h. All take
/// floating dtypes, and throw DTypeError for others and ValueError for a parameter that is NaN.
namespace tessera {

// clang-format off
/// s (x for x > 0, else alpha (e^x - 1)), s = 1.0507009873554805 and alpha = 1.6732632423543773 (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
/// x for x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017). Throws ValueError for an alpha of 0.
Tensor celu(const Tensor& x, double alpha = 1);
/// x hardsigmoid(x) (Howard et al. 2019).
Tensor hardswish(const Tensor& x);
/// x / 6 + 1/2, limited to [0, 1].
Tensor hardsigmoid(const Tensor& x);
/// x, limited to [min, max]. Throws ValueError unless min <= max.
Tensor hardtanh(const Tensor& x, double min = -1, double max = 1);
/// x, limited to [0, 6].
Tensor relu6(const Tensor& x);
/// log(1 + e^(beta x)) / beta, and x where beta x is above `threshold`. Throws ValueError for a beta of 0.
/// (`softplus(x)` has no threshold: it needs none.)
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
/// x / (1 + |x|).
Tensor softsign(const Tensor& x);
/// x - lambda for x > lambda, x + lambda for x < -lambda, else 0. Throws ValueError for a negative lambda.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
/// x where |x| is above lambda, else 0. Throws ValueError for a negative lambda.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
/// x - tanh(x).
Tensor tanhshrink(const Tensor& x);
/// x where it is above `threshold`, else `value`.
Tensor threshold(const Tensor& x, double threshold, double value);
/// x where it is above 0, else weight x: `weight` is one number, () or (1,), or one for each channel, (C,), the
/// channels being dimension 1 of x, or the only one (He et al. 2015). Throws ShapeError for another weight.
Tensor prelu(const Tensor& x, const Tensor& weight);
/// x where it is above 0, else a x. Without training a is the mean of both bounds, and no number is drawn; in
/// training each element has its own a, uniform in [lower, upper), which is a function of the key and the
/// element's index (Xu et al. 2015). Throws ValueError unless lower <= upper.
/// @{
Tensor rrelu(const Tensor& x, double lower, double upper, bool training, uint64_t key);
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// @}
/// softmax(-x): the smallest values weigh most.
Tensor softmin(const Tensor& x, int64_t dim = -1);
/// A softmax of (log-weights x + Gumbel noise) / tau: a differentiable sample of a category (Jang et al. 2017). The
/// noise is a function of the key and the element's index. With `hard` the result is one-hot, and its gradient is
/// that of the soft one. Throws ValueError for a tau that is not above 0.
Tensor gumbel_softmax(const Tensor& x, double tau, bool hard, int64_t dim, uint64_t key);

/// In place: x becomes f(x).
/// @{
void leaky_relu_(const Tensor& x, double slope = 0.01);
void elu_(const Tensor& x, double alpha = 1);
void selu_(const Tensor& x);
void celu_(const Tensor& x, double alpha = 1);
void mish_(const Tensor& x);
void hardswish_(const Tensor& x);
void hardsigmoid_(const Tensor& x);
void hardtanh_(const Tensor& x, double min = -1, double max = 1);
void relu6_(const Tensor& x);
void threshold_(const Tensor& x, double threshold, double value);
void rrelu_(const Tensor& x, double lower, double upper, bool training, uint64_t key);
void rrelu_(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// @}
// clang-format on

}  // namespace tessera
