#pragma once

#include "nn/module.h"

namespace tessera::nn {

/// Stores the weight of every nn::Linear from `module` down as 8-bit integers with an f32 scale for each row
/// (ops::quantize_rows), for inference, and frees the weight: its Variable keeps its shape and dtype, on
/// meta. Other parameters stay as they are. A call of at most 16 rows then reads a byte a weight. Layers that
/// have integers already are left alone. A clone has them too; `state_dict` has no values of such a weight,
/// and what would give it new ones (`nn::materialize`, a parametrisation, a Trainer, `dist::shard`) throws
/// ConfigError. Under autocast in bf16 products compute as those of other layers.
///
///     nn::quantize_weights(net);
///     const NoGrad no_grad;
///     Variable y = net(x);
///
/// Throws, naming the layer, and then changes nothing: ConfigError for a weight that is sharded,
/// parametrised, tied to another parameter, in mixed precision or not held by this rank; DTypeError for one
/// that is neither f32 nor bf16; DeviceError for one on meta or on a device other than the CPU; ValueError
/// for a NaN or an infinity. A call that would record gradients throws AutogradError.
void quantize_weights(Module& module);

/// Whether products of this layer read 8-bit integers instead of its weight: an nn::Linear after
/// `quantize_weights`, an nn::Embedding after `quantize_logits`.
bool has_quantized_weight(const Module& layer);

}  // namespace tessera::nn
