#pragma once  // internal

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::training {

/// The finite elements of a tensor, counted in buckets, and their moments.
struct ExponentialHistogram {
  double min = 0;          ///< 0 without elements, as `max`
  double max = 0;          ///< the largest element
  double count = 0;        ///< of the finite elements
  double sum = 0;          ///< of them
  double sum_squares = 0;  ///< of them
  std::vector<double>
      bucket_limits;  ///< the upper limits, ascending; a value equal to one is in the next bucket
  std::vector<double> bucket_counts;  ///< of the elements from the limit before to the bucket's own
  int64_t non_finite = 0;             ///< elements that are NaN or infinite, in no bucket
};

/// TensorBoard's usual buckets: limits 1e-12, 1.1e-12, ... each a tenth above the one before, up to 1e20,
/// then the largest double; the same below zero; and 0. Adjacent empty buckets are joined into one. Without
/// finite elements: one empty bucket. Throws ValueError for an undefined tensor, DeviceError for one on meta.
ExponentialHistogram exponential_histogram(const Tensor& values);

}  // namespace tessera::training
