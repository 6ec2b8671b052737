#pragma once

#include <cstdint>

#include "tensor/arguments/dropout.h"
#include "tensor/random/sample_layout.h"
#include "tensor/tensor.h"

namespace tessera::ops {

/// The mask of dropout: each element is dropped with `probability`, drawn from `key`
/// (tensor/random/random_context.h); `samples` maps elements to samples. The default drops none.
struct DropoutMask {
  double probability = 0;     ///< of an element to be dropped, in [0, 1]
  uint64_t key = 0;           ///< the Philox key of this use of dropout
  SampleLayout samples = {};  ///< the default: dimension 0 counts the samples
};

/// x with each element zeroed with `probability` and the others divided by 1 - probability, in one pass.
/// Whether an element is dropped depends on the key, its sample, the step (this thread's random context) and
/// its index within the sample: row-major over the other dimensions, where `first_index` is that of a
/// sample's first element. So a sample keeps its mask as (B, T, C), (T, B, C) and (B T, C). Applied to dy,
/// dropout is its own backward. Throws DTypeError for integers, ValueError for a probability outside [0, 1]
/// or a number of samples that differs from the context's, ShapeError for a layout that does not fit x.
Tensor dropout(const Tensor& x, const DropoutMask& mask, int64_t first_index = 0);
/// The same for x (B, ...).
Tensor dropout(const Tensor& x, double probability, uint64_t key, int64_t first_index = 0);

/// x + dropout(delta) in one pass, rounded once; shapes and dtypes equal. Throws as `dropout`, and ValueError
/// for a probability of 1, ShapeError, DTypeError.
Tensor add_dropout(const Tensor& x, const Tensor& delta, const DropoutMask& mask);

/// The kernels' description of `mask` for a tensor like x, from this thread's random context. Throws
/// ValueError naming `where`, ShapeError.
DropoutRows dropout_rows(const char* where, const Tensor& x, const DropoutMask& mask,
                         int64_t first_index = 0);

}  // namespace tessera::ops
