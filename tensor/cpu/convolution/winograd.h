#pragma once  // internal

#include "tensor/arguments/convolution.h"
#include "tensor/tensor.h"

/// 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), with a quarter of the multiplications, for
/// channels-last tensors of f32 or bf16; computed in f32 (README.md). Weights and their gradients are f32 and
/// contiguous. Tasks depend on the geometry alone, so results do not depend on the number of threads.
namespace tessera::kernels::cpu {

/// Whether these functions take the geometry, and save multiplications: images that fill the tiles of 4 x 4
/// and channels that fill registers.
bool winograd_takes(const ConvolutionGeometry& g);

/// y = weight * x, plus `bias` (C_out, f32) and `added` (like y) where they are defined; then, with `relu`,
/// at least 0.
void winograd(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Tensor& added, bool relu, const Tensor& y);

/// dx, from the gradient of y.
void winograd_input(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& weight, const Tensor& dx);

/// The weight's gradient; with `accumulate` it is added to `dw`.
void winograd_weight_gradient(const ConvolutionGeometry& g, const Tensor& dy, const Tensor& x,
                              bool accumulate, const Tensor& dw);

}  // namespace tessera::kernels::cpu
