#pragma once  // internal

#include "tensor/arguments/elementwise_loss.h"
#include "tensor/tensor.h"

/// Losses of single elements on CUDA devices, with the contract of tensor/cpu/losses/elementwise_loss.h. Each
/// element has the CPU's bits; a sum has an order of its own, the same in every run.
namespace tessera::kernels::cuda {

void elementwise_losses(const ElementwiseLoss& f, const Tensor& x, const Tensor& target, const Tensor& out);
void elementwise_loss_sum(const ElementwiseLoss& f, double scale, const Tensor& x, const Tensor& target,
                          const Tensor& out);
void elementwise_loss_backward(const ElementwiseLoss& f, double scale, const Tensor& dloss, const Tensor& x,
                               const Tensor& target, const Tensor& dx);

}  // namespace tessera::kernels::cuda
