#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// Which elements of a contiguous tensor dropout takes. The tensor is (outer, samples, length): of the
/// length elements at (o, s) the i-th draws as sample samples[s], at index first_index + o length + i.
struct DropoutRows {
  double probability = 0;
  uint64_t key = 0;
  uint32_t step = 0;
  std::vector<uint32_t> samples = {};
  int64_t length = 0;  ///< elements of a sample in a row
  int64_t first_index = 0;
};

/// y = the n elements of x, which are those from `first` on of the whole tensor, without the ones that fall
/// away, the rest divided by 1 - probability. y may be x.
void drop_elements(const DropoutRows& rows, const float* x, int64_t first, int64_t n, float* y);
void drop_elements(const DropoutRows& rows, const double* x, int64_t first, int64_t n, double* y);

/// y = base + dropout(x), or dropout(x) where `base` is undefined. All contiguous, of one dtype.
void dropout(const Tensor& base, const Tensor& x, const DropoutRows& rows, const Tensor& y);

}  // namespace tessera::kernels::cpu
