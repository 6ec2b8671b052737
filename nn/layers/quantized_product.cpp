#include "nn/layers/quantized_product.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/layers/quantized_linear.h"

namespace tessera::nn {

ops::QuantizedWeight quantize_weight(const Module& layer, const Variable& weight) {
  const std::string name = text("quantize_weights: nn::", layer.kind(), " '", layer.full_name(), "'");
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

void require_no_gradients(const Module& layer, const Variable& x) {
  if (!grad_mode()) return;
  const bool has_trained =
      std::any_of(layer.entries().begin(), layer.entries().end(),
                  [](const Module::Entry& entry) { return entry.variable.requires_grad(); });
  require<AutogradError>(!x.requires_grad() && !has_trained, "nn::", layer.kind(), " '", layer.full_name(),
                         "': its weight is int8, for inference, and records no gradients; call it under "
                         "NoGrad");
}

Variable quantized_product(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias) {
  return Variable(ops::quantized_linear(x, weight, bias ? ops::cast(bias->value(), x.dtype()) : Tensor()));
}

}  // namespace tessera::nn
