#pragma once  // internal

#include "tensor/arguments/sequence.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Fills a contiguous tensor with the values of the sequence, converted to its dtype.
void fill_sequence(const ops::Sequence& sequence, const Tensor& out);

/// out[i, ids[i]] = 1, of a contiguous `out` (n, classes) of zeros. Throws IndexError for an id outside [0,
/// classes).
void one_hot(const Tensor& ids, int64_t classes, const Tensor& out);

}  // namespace tessera::kernels::cpu
