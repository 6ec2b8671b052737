#pragma once  // internal

#include "tensor/arguments/dropout.h"
#include "tensor/tensor.h"

namespace tessera::kernels::cpu {

/// y = dropout(x) of the n elements x, which begin at element `first` of the tensor: dropped elements are 0,
/// kept ones are divided by 1 - probability. y may be x.
void drop_elements(const ops::DropoutRows& rows, const float* x, int64_t first, int64_t n, float* y);
void drop_elements(const ops::DropoutRows& rows, const double* x, int64_t first, int64_t n, double* y);

/// y = base + dropout(x), or dropout(x) where `base` is undefined. All contiguous, of one dtype.
void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y);

}  // namespace tessera::kernels::cpu
