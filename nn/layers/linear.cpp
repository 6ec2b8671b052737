#include "nn/layers/linear.h"

#include <cmath>

#include "autograd/functions/layers/activation_linear.h"
#include "autograd/functions/matmul.h"
#include "nn/layers/quantized_product.h"

namespace tessera::nn {

init::Initializer LinearOptions::bias_initializer() const {
  if (bias_init.defined()) return bias_init;
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  return init::uniform(-bound, bound);
}

std::string Linear::describe_options() const {
  return text(o.in, " -> ", o.out, o.bias ? "" : ", no bias", quantized_weight() ? ", int8" : "");
}

void Linear::check(const Variable& x) const {
  require<ShapeError>(x.ndim() >= 1 && x.shape().back() == o.in, "nn::Linear '", full_name(), "': input has ",
                      x.ndim() >= 1 ? x.shape().back() : 0, " features, the weight ", weight.shape(),
                      " takes ", o.in, "; x is ", x);
}

Variable Linear::forward(const Variable& x) const {
  check(x);
  if (quantized_weight()) return quantized_product(quantized_operand(*this, x), quantized_, bias);
  return linear(x, weight, bias ? *bias : Variable());
}

namespace {

/// New values for a weight that integers stand for would silently take their place: what materializes the
/// module, shards it or trains it throws instead.
void refuse_new_values(Linear& layer) {
  const std::string name = layer.full_name();
  const auto refuse = [name](const Tensor&, uint64_t, const Shape&, int64_t) {
    throw ConfigError(text("nn::Linear '", name,
                           "': its weight is stored as 8-bit integers, for inference; train, shard or save a "
                           "model with its own weights"));
  };
  for (Module::Entry& entry : layer.entries())
    if (entry.name == "weight") entry.initializer = init::Initializer("8-bit integers", refuse);
}

}  // namespace

void Linear::set_quantized_weight(ops::QuantizedWeight quantized) {
  require<ShapeError>(quantized.values.shape() == weight.shape() && quantized.scales.shape() == Shape{o.out},
                      "nn::Linear '", full_name(), "': expected integers ", weight.shape(), " and ", o.out,
                      " scales, got ", describe(quantized.values), " and ", describe(quantized.scales));
  quantized_ = std::move(quantized);
  weight.set_grad(Variable());
  weight.set_value(Tensor::empty(weight.shape(), weight.dtype(), meta()));
  refuse_new_values(*this);
}

void Linear::copy_options(const Module& original) {
  Layer::copy_options(original);
  quantized_ = static_cast<const Linear&>(original).quantized_;
  if (quantized_.defined()) refuse_new_values(*this);
}

Variable Linear::forward_activated(const Variable& x, Activation activation) const {
  const auto body = [this, activation](const Variable& in) {
    check(in);
    if (quantized_weight())
      return quantized_product(ops::activation(activation, quantized_operand(*this, in)), quantized_, bias);
    return activation_linear(activation, in, weight, bias ? *bias : Variable());
  };
  return call(rerunnable(body), x);
}

Variable Linear::cross_entropy(const Variable& x, const Tensor& targets,
                               const CrossEntropyOptions& options) const {
  const auto body = [this, targets, options](const Variable& in) {
    check(in);
    if (quantized_weight())
      return quantized_cross_entropy(quantized_operand(*this, in), quantized_, bias, targets, options);
    return linear_cross_entropy(in, weight, targets, options, bias ? *bias : Variable());
  };
  return call(rerunnable(body), x);
}

}  // namespace tessera::nn
