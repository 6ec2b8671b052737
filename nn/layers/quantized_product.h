#pragma once  // internal

#include "nn/module.h"
#include "tensor/arguments/quantized_weight.h"

namespace tessera::nn {

/// `ops::quantize_rows` of a layer's weight, counted as parameters. Throws, naming the layer, DeviceError for
/// a weight on meta or on a device other than the CPU, DTypeError for one that is neither f32 nor bf16,
/// ValueError for a NaN or an infinity.
ops::QuantizedWeight quantize_weight(const Module& layer, const Variable& weight);

/// Throws AutogradError, naming the layer, where a call with x would record gradients: its weight is
/// integers.
void require_no_gradients(const Module& layer, const Variable& x);

/// x W^T + b, with b, which may be null, in x's dtype. Throws as `ops::quantized_linear`.
Variable quantized_product(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias);

}  // namespace tessera::nn
