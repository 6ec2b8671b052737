#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// The mask that dropout draws for a contiguous tensor (outer, samples, length): element (o, s, i) draws as
/// sample samples[s], at index first_index + o length + i.
struct DropoutRows {
  double probability = 0;
  uint64_t key = 0;
  uint32_t step = 0;
  std::vector<uint32_t> samples = {};
  int64_t length = 0;  ///< adjacent elements of one sample
  int64_t first_index = 0;
};

/// y = dropout(x) of the n elements x, which begin at element `first` of the tensor: dropped elements are 0,
/// kept ones are divided by 1 - probability. y may be x.
void drop_elements(const DropoutRows& rows, const float* x, int64_t first, int64_t n, float* y);
void drop_elements(const DropoutRows& rows, const double* x, int64_t first, int64_t n, double* y);

/// y = base + dropout(x), or dropout(x) where `base` is undefined. All contiguous, of one dtype.
void dropout(const Tensor& base, const Tensor& x, const DropoutRows& rows, const Tensor& y);

}  // namespace tessera::kernels::cpu
