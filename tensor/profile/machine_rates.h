#pragma once

#include <cstdint>

#include "tensor/types/dtype.h"

/// The best rates of this machine, measured now with this thread's number of threads, to compare a model's
/// speed with. Each takes a few hundredths of a second, and leaves nothing in the memory account or cache.
namespace tessera {

/// FLOP/s of a matrix product of `dtype` (768 x 768 x 768), the best of several.
double measured_product_rate(DType dtype);

/// Bytes/s, read and written together, of a copy that touches `footprint` bytes in all, the best of several.
/// By default far more than caches hold.
double measured_copy_rate(int64_t footprint = int64_t{1} << 29);

}  // namespace tessera
