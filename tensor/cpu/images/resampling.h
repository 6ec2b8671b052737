#pragma once  // internal

#include "tensor/arguments/pooling.h"

namespace tessera::kernels::cpu {

/// y from x, plane by plane, by a linear map along each dimension; both contiguous. Averages of windows and
/// interpolation are such maps.
void resample(const Tensor& x, const ops::ResamplingAxes& axes, const Tensor& y);
/// The transposed map: dx from dy.
void resample_backward(const Tensor& dy, const ops::ResamplingAxes& axes, const Tensor& dx);

}  // namespace tessera::kernels::cpu
