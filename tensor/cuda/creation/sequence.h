#pragma once  // internal

#include "tensor/arguments/sequence.h"
#include "tensor/tensor.h"

/// With the contract and the values of tensor/cpu/creation/sequence.h, but that an id outside the classes is
/// an error when the host next waits for the device (tensor/cuda/runtime/late_errors.h).
namespace tessera::kernels::cuda {

void fill_sequence(const ops::Sequence& sequence, const Tensor& out);
void one_hot(const Tensor& ids, int64_t classes, const Tensor& out);

}  // namespace tessera::kernels::cuda
