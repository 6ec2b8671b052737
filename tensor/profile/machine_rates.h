#pragma once

#include "tensor/dtype.h"

/// What this machine does at best, measured now with this thread's number of threads: what a model's speed is
/// held against. Each takes a few hundredths of a second, and leaves nothing in the memory account or cache.
namespace tessera {

/// FLOP/s of a matrix product of `dtype` (768 x 768 x 768), the best of several.
double measured_product_rate(DType dtype);

/// Bytes/s, read and written together, of a copy far larger than the caches, the best of several.
double measured_copy_rate();

}  // namespace tessera
