#pragma once

#include "autograd/variable.h"
#include "tensor/ops/indexing/embedding_bag.h"

namespace tessera {

/// Options of `embedding_bag`.
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;      ///< how the rows of a bag become one
  bool include_last_offset = false;  ///< the last offset is the end of the last bag, not another bag
  int64_t padding_idx = -1;          ///< an id that counts for nothing; -1: none
};

/// Bags of a table's rows, without the rows in between: ids (N,) with offsets (B,) i64, where bag b has the
/// ids from offsets[b] on, or ids (B, L) without offsets, L in each bag; weight (V, C); result (B, C), 0 for
/// an empty bag. `per_sample_weights`, of the shape of ids, multiply the rows; for sums only. Saves ids, and
/// the weight where `per_sample_weights` need a gradient. Throws ValueError for offsets that do not begin at
/// 0, fall, or pass N, for weights of samples in another mode, and for a padding_idx outside the table;
/// IndexError for an id outside [0, V); ShapeError, DTypeError.
Variable embedding_bag(const Tensor& ids, const Variable& weight, const Tensor& offsets = {},
                       const EmbeddingBagOptions& options = {}, const Variable& per_sample_weights = {});

}  // namespace tessera
