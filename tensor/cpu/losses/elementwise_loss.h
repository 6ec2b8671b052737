#pragma once  // internal

#include "tensor/arguments/elementwise_loss.h"
#include "tensor/tensor.h"

/// Losses of single elements on CPU tensors; bf16 and f16 are computed in f32.
namespace tessera::kernels::cpu {

/// Each element's loss; tensors of any strides and one shape.
void elementwise_losses(const ElementwiseLoss& f, const Tensor& x, const Tensor& target, const Tensor& out);
/// The sum of all losses times `scale`, in out (0-dim). x and target are contiguous. The order of the sum
/// depends on the number of elements alone.
void elementwise_loss_sum(const ElementwiseLoss& f, double scale, const Tensor& x, const Tensor& target,
                          const Tensor& out);
/// dx = scale dloss times the derivative at x; dloss is expanded to x's shape.
void elementwise_loss_backward(const ElementwiseLoss& f, double scale, const Tensor& dloss, const Tensor& x,
                               const Tensor& target, const Tensor& dx);

}  // namespace tessera::kernels::cpu
