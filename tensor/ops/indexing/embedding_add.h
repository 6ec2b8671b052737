#pragma once

#include "tensor/ops/layers/dropout.h"

namespace tessera::ops {

/// dropout(weight[ids] + addend) in one pass, rounded once: ids (B, T), weight (V, C), addend (T, C); the
/// result is (B, T, C). The mask is that of `dropout` on the result. Throws IndexError for an id outside
/// [0, V), naming its position; ShapeError, DTypeError, and as `dropout`.
Tensor embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend,
                     const DropoutMask& mask = {});

/// Adds dy (B, T, C), with the mask already applied, to the rows `ids` (B, T) of `table` (V, C) and, summed
/// over B, to `addend` (T, C), in one pass; either may be undefined. Both have dy's dtype (f32 for the half
/// types) and may not overlap each other, dy or ids (ValueError). Terms are added in the order of (b, t), so
/// the bits do not depend on the number of threads.
void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend);

}  // namespace tessera::ops
