#pragma once  // internal

#include "tensor/tensor.h"

/// Distances between rows: contiguous tensors of f64 or f32, a (batch, n, d), b (batch, m, d), and y, dy
/// (batch, n, m).
namespace tessera::kernels::cpu {

/// y = (sum |a_i - b_j|^p)^(1/p).
void distances(double p, const Tensor& a, const Tensor& b, const Tensor& y);

/// y, which holds the products a_i b_j, becomes the Euclidean distances. Where a distance is small beside the
/// rows it is computed from their differences, so that nothing cancels.
void distances_from_products(const Tensor& a, const Tensor& b, const Tensor& y);

/// da_i = sum over j of dy_ij times the derivative of y_ij by a_i.
void distances_backward(double p, const Tensor& a, const Tensor& b, const Tensor& y, const Tensor& dy,
                        const Tensor& da);

}  // namespace tessera::kernels::cpu
