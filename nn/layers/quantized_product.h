#pragma once  // internal

#include "autograd/functions/layers/loss.h"
#include "nn/module.h"
#include "tensor/arguments/quantized_weight.h"

namespace tessera::nn {

/// Throws ConfigError, naming the layer, where its weight is parametrised.
void require_not_parametrized(const Module& layer);

/// `ops::quantize_rows` of a layer's weight, counted as parameters. Throws, naming the layer, DeviceError for
/// a weight on meta or on a device other than the CPU, DTypeError for one that is neither f32 nor bf16,
/// ValueError for a NaN or an infinity.
ops::QuantizedWeight quantize_weight(const Module& layer, const Variable& weight);

/// x as products with integers take it: without history, and under autocast in the scope's dtype. Throws,
/// naming the layer, AutogradError where a call with x would record gradients, DTypeError for another dtype
/// than f32 and bf16.
Tensor quantized_operand(const Module& layer, const Variable& x);

/// x W^T + b of a `quantized_operand`, with b, which may be null, in x's dtype. Throws as
/// `ops::quantized_linear`.
Variable quantized_product(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias);

/// The cross entropy of these results as logits, in f32 and by chunks; without a reduction that of
/// `quantized_product`. Throws as `ops::quantized_linear_cross_entropy`.
Variable quantized_cross_entropy(const Tensor& x, const ops::QuantizedWeight& weight, const Variable* bias,
                                 const Tensor& targets, const CrossEntropyOptions& options);

}  // namespace tessera::nn
