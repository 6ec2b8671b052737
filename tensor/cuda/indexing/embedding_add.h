#pragma once  // internal

#include "tensor/arguments/dropout.h"
#include "tensor/tensor.h"

/// The sum of a row of the token table and a row of the position table, with the contract of
/// tensor/cpu/indexing/embedding_add.h, but that ids may be out of range: such a token's row is zeros.
namespace tessera::kernels::cuda {

void embedding_add(const Tensor& ids, const Tensor& weight, const Tensor& addend,
                   const ops::DropoutRows* mask, const Tensor& y);
void embedding_add_backward(const Tensor& dy, const Tensor& ids, const Tensor& table, const Tensor& addend);

}  // namespace tessera::kernels::cuda
