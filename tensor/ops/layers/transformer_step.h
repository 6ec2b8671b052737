#pragma once

#include <span>

#include "tensor/arguments/transformer_step.h"

namespace tessera::ops {

/// The most rows for which reading the weights in place, as `transformer_step` does, is faster than products
/// of packed weights.
inline constexpr int64_t transformer_step_rows = 16;

/// Whether `transformer_step` computes with these weights: contiguous, on the CPU, all f32 or all bf16, where
/// the four linear weights may be integers with scales.
bool takes_transformer_step(const TransformerStepWeights& weights);

/// A transformer's block for one new position of each sequence, in place and without any other allocation
/// than scratch: x (R, C) f32 becomes the block's result. Position `lengths[r]` of row r is appended to keys
/// and values (R, H, capacity, D), of the norms' dtype and contiguous, and attends to all positions up to
/// itself. Values between the operations stay in f32; a row's bits do not depend on the other rows nor on the
/// number of threads, and for f32 are those of the operations one by one on at most `transformer_step_rows`
/// rows. Throws ShapeError for shapes that do not fit, or where a row is full; DTypeError for other dtypes,
/// or where the weights are not taken.
void transformer_step(const Tensor& x, const TransformerStepWeights& weights, const Tensor& keys,
                      const Tensor& values, std::span<const int64_t> lengths);

}  // namespace tessera::ops
