#pragma once  // internal

#include "tensor/elementwise/op_lists.h"
#include "tensor/tensor.h"
#include "tensor/types/scalar.h"

/// Elementwise operations on tensors of a CUDA device, of any strides: the same contract, and for every
/// element the same bits, as the functions of tensor/cpu/elementwise.
namespace tessera::kernels::cuda {

/// out = op(x).
void unary(UnaryOp op, DType type, const Tensor& x, const Tensor& out);
/// out = op(a, b).
void binary(BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out);
/// out = op(x, scalar), or op(scalar, x) when `scalar_first`.
void binary_scalar(BinaryOp op, DType type, const Tensor& x, const Scalar& scalar, bool scalar_first,
                   const Tensor& out);
/// out = op(a, b, c, factor).
void ternary(TernaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
             const Tensor& out);
/// out = condition ? a : b; condition is bool, a and b have any dtype of out's kind.
void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out);
/// out = x converted to out's dtype.
void cast(const Tensor& x, const Tensor& out);
/// x itself where it has that dtype, else a converted copy.
Tensor as_dtype(const Tensor& x, DType dtype);
/// Sets every element of out to `value`.
void fill(const Tensor& out, const Scalar& value);
/// Copies the elements of `source` to `target`: same shape and dtype.
void copy(const Tensor& source, const Tensor& target);
/// Sets all bytes of the elements of `target` to zero.
void zero(const Tensor& target);

}  // namespace tessera::kernels::cuda
