#pragma once  // internal

#include "tensor/arguments/dropout.h"
#include "tensor/tensor.h"
#include "tensor/types/dtype.h"

namespace tessera::kernels::cpu {

/// y = dropout(x) of the n elements x, which begin at element `first` of the tensor: dropped elements are 0,
/// kept ones are divided by 1 - probability; plus `base`, of y's dtype, unless it is null. The dtypes are one
/// floating type, or a half type and f32. y may be x or base.
void drop_elements(const ops::DropoutRows& rows, DType from, const void* x, const void* base, int64_t first,
                   int64_t n, DType to, void* y);
template <class From, class To>
void drop_elements(const ops::DropoutRows& rows, const From* x, int64_t first, int64_t n, To* y) {
  drop_elements(rows, dtype_of<From>, x, nullptr, first, n, dtype_of<To>, y);
}

/// y = base + dropout(x), or dropout(x) where `base` is undefined. All contiguous, of one dtype.
void dropout(const Tensor& base, const Tensor& x, const ops::DropoutRows& rows, const Tensor& y);

}  // namespace tessera::kernels::cpu
