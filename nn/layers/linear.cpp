#include "nn/layers/linear.h"

#include <cmath>

#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/matmul.h"

namespace tessera::nn {

init::Initializer LinearOptions::bias_initializer() const {
  if (bias_init.defined()) return bias_init;
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  return init::uniform(-bound, bound);
}

std::string Linear::describe_options() const {
  return text(o.in, " -> ", o.out, o.bias ? "" : ", no bias");
}

void Linear::check(const Variable& x) const {
  require<ShapeError>(x.ndim() >= 1 && x.shape().back() == o.in, "nn::Linear '", full_name(), "': input has ",
                      x.ndim() >= 1 ? x.shape().back() : 0, " features, the weight ", weight.shape(),
                      " takes ", o.in, "; x is ", x);
}

Variable Linear::forward(const Variable& x) const {
  check(x);
  return linear(x, weight, bias ? *bias : Variable());
}

Variable Linear::forward_activated(const Variable& x, Activation activation) const {
  const auto body = [this, activation](const Variable& in) {
    check(in);
    return activation_linear(activation, in, weight, bias ? *bias : Variable());
  };
  return call(rerunnable(body), x);
}

Variable Linear::cross_entropy(const Variable& x, const Tensor& targets,
                               const CrossEntropyOptions& options) const {
  const auto body = [this, targets, options](const Variable& in) {
    check(in);
    return linear_cross_entropy(in, weight, targets, options, bias ? *bias : Variable());
  };
  return call(rerunnable(body), x);
}

}  // namespace tessera::nn
