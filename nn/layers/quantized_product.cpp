#include "nn/layers/quantized_product.h"

#include <algorithm>

#include "autograd/autocast/operands.h"
#include "autograd/grad_mode.h"
#include "nn/parametrize/parametrization.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"

namespace tessera::nn {

namespace {

std::string described(const Module& layer) {
  return text("quantize_weights: nn::", layer.kind(), " '", layer.full_name(), "'");
}

}  // namespace

void require_not_parametrized(const Module& layer) {
  require<ConfigError>(!is_parametrized(layer, "weight"), described(layer),
                       ": its weight is parametrised; call nn::remove_parametrizations first");
}

ops::QuantizedWeight quantize_weight(const Module& layer, const Variable& weight) {
  const std::string name = described(layer);
  require<DeviceError>(weight.device().is_cpu(), name, ": expected a weight on the CPU, got ", weight);
  require<DTypeError>(weight.dtype() == f32 || weight.dtype() == bf16, name,
                      ": expected a weight of f32 or bf16, got ", weight);
  const CategoryScope category(MemoryCategory::parameter);
  try {
    return ops::quantize_rows(weight.value());
  } catch (const ValueError& error) {
    throw ValueError(text(name, ": ", error.what()));
  }
}

namespace {

void require_no_gradients(const Module& layer, const Variable& x) {
  if (!grad_mode()) return;
  const bool has_trained =
      std::any_of(layer.entries().begin(), layer.entries().end(),
                  [](const Module::Entry& entry) { return entry.variable.requires_grad(); });
  require<AutogradError>(!x.requires_grad() && !has_trained, "nn::", layer.kind(), " '", layer.full_name(),
                         "': its weight is int8, for inference, and records no gradients; call it under "
                         "NoGrad");
}

Tensor in_dtype_of(const Tensor& x, const Variable* bias) {
  return bias ? ops::cast(bias->value(), x.dtype()) : Tensor();
}

}  // namespace

Tensor quantized_operand(const Module& layer, const Variable& x) {
  require_no_gradients(layer, x);
  const Tensor value = autocast::lowers(x) ? ops::cast(x.value(), autocast_dtype()) : x.value();
  require<DTypeError>(value.dtype() == f32 || value.dtype() == bf16, "nn::", layer.kind(), " '",
                      layer.full_name(), "': its weight is int8, which multiplies f32 and bf16, got ",
                      describe(value), autocast::lowers(x) ? " by autocast" : "");
  return value;
}

Variable quantized_product(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias) {
  return Variable(ops::quantized_linear(x, weight, in_dtype_of(x, bias)));
}

Variable quantized_cross_entropy(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias,
                                 const Tensor& targets, const CrossEntropyOptions& options) {
  if (options.reduction == LossReduction::none)
    return cross_entropy(quantized_product(x, weight, bias), targets, options);
  return Variable(ops::quantized_linear_cross_entropy(x, weight, in_dtype_of(x, bias), targets, options));
}

}  // namespace tessera::nn
