#include "nn/linear.h"

#include "autograd/functions/activation_linear.h"
#include "autograd/functions/matmul.h"

namespace tessera::nn {

init::Program LinearOptions::bias_program() const {
  if (bias_init.defined()) return bias_init;
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  return init::uniform(-bound, bound);
}

std::string Linear::describe_options() const {
  return text(o.in, " -> ", o.out, o.bias ? "" : ", no bias");
}

void Linear::check(const Variable& x) const {
  require<ShapeError>(x.rank() >= 1 && x.shape().back() == o.in, "nn::Linear '", full_name(), "': input has ",
                      x.rank() >= 1 ? x.shape().back() : 0, " features, the weight ", weight.shape(),
                      " takes ", o.in, "; x is ", x);
}

Variable Linear::forward(const Variable& x) {
  check(x);
  return linear(x, weight, bias ? *bias : Variable());
}

Variable Linear::forward(const Variable& x, Activation activation) {
  check(x);
  return activation_linear(activation, x, weight, bias ? *bias : Variable());
}

Variable Linear::forward(const Variable& x, const Tensor& targets, const CrossEntropyOptions& options) {
  check(x);
  return linear_cross_entropy(x, weight, targets, options, bias ? *bias : Variable());
}

}  // namespace tessera::nn
