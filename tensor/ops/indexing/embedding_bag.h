#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// How the rows of a bag become one.
enum class BagMode : uint8_t { sum, mean, max };

namespace ops {

/// The rows of a table, summed in bags: ids (N,), weight (V, C), result (B, C), where bag b has the ids from
/// offsets[b] on to before offsets[b + 1] (the last bag to N). `factors` (N,), of the weight's dtype,
/// multiply the rows; undefined: 1. Sums are in f32 (f64 for f64), in the order of the ids; an empty bag
/// gives 0. Throws IndexError for an id outside [0, V), ValueError for offsets that do not begin at 0, fall
/// or pass N, ShapeError, DTypeError.
Tensor embedding_bag(const Tensor& ids, const Tensor& weight, const Tensor& offsets,
                     const Tensor& factors = {});

/// The row (B, C) of i64 that holds the largest value of each feature among a bag's rows, the first one of
/// several; V for an empty bag. Throws as `embedding_bag`.
Tensor embedding_bag_max_rows(const Tensor& ids, const Tensor& weight, const Tensor& offsets);

/// Throws ValueError where the last offset is not the number of ids; on CUDA devices when the host next
/// waits.
void check_last_offset(const Tensor& offsets, int64_t ids);

/// The bag of each id, (N,) i64. Throws ValueError as `embedding_bag`.
Tensor bags_of(const Tensor& offsets, int64_t ids);

}  // namespace ops
}  // namespace tessera
