#pragma once

#include <span>

#include "tensor/tensor.h"

// Operations on a list of floating tensors at once, in one parallel region, as clipping and loss scaling of
// all gradients need them. Contiguous tensors are processed in place, others through a copy; undefined ones
// are skipped. A tensor that is written in place may overlap neither its own elements nor, where both are
// contiguous, another tensor of the list (ValueError). Each function throws DTypeError for a tensor that is
// not floating, DeviceError for mixed devices.
namespace tessera::ops {

/// For each tensor the sum of |x|^p in f64, or the largest |x| for p = infinity: f64 of shape (tensors), 0
/// for an undefined or empty tensor. Sums are over blocks of fixed size from the tensor's start, the blocks
/// in index order, so the bits depend on neither threads nor processor. NaN stays NaN. For p = 2 a contiguous
/// tensor with a note of its sum (`Tensor::noted_squares`) is not read; a product notes the sum in an order
/// of its own. Throws ValueError unless p > 0.
Tensor power_sums(std::span<const Tensor> tensors, double p);

/// x *= factor, in place. `factor`: 0-dim f64, rounded to f32 first for tensors narrower than f64.
void scale_in_place(std::span<const Tensor> tensors, const Tensor& factor);

/// The same, and returns the index of the first tensor with an infinity or NaN among its products, -1 for
/// none (0-dim i64). On the CPU it notes each contiguous tensor's sum of squares, as `power_sums` has it, in
/// the same pass (`Tensor::noted_squares`).
Tensor scale_and_find_nonfinite(std::span<const Tensor> tensors, const Tensor& factor);

/// x = 0. The threads write the parts of each tensor that they update in `optimizer_update`, so pages of new
/// memory lie near these.
void zero_in_place(std::span<const Tensor> tensors);

/// x = min(max(x, -limit), limit), in place; NaN stays NaN. Throws ValueError for a negative limit.
void clamp_in_place(std::span<const Tensor> tensors, double limit);

}  // namespace tessera::ops
