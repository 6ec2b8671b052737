#pragma once  // internal

#include "tensor/cpu/layers/dropout.h"

namespace tessera::kernels::cpu {

/// y[b, t] = dropout(weight[ids[b, t]] + addend[t]); a null mask drops nothing. All tensors are contiguous;
/// ids are i64 or i32 and in range.
void embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend,
                   const ops::DropoutRows* mask, const Tensor& y);

/// Adds dy[b, t] (B, T, C) to table[ids[b, t]] and to addend[t], where they are defined, in the order of (b,
/// t). Both are f32 for a dy of a half type.
void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend);

}  // namespace tessera::kernels::cpu
