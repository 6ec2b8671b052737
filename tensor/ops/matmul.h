#pragma once

#include <string>

#include "tensor/arguments/matmul.h"
#include "tensor/tensor.h"

namespace tessera {

/// Sets the backend for the whole process; the default is `automatic`. Throws NotBuiltError for a backend
/// that this build does not have.
void set_matmul_backend(MatmulBackend backend);
/// The backend last set, `automatic` before.
MatmulBackend matmul_backend();
/// What multiplies large matrices in this process, in a line: "f32 ours avx512; weight gradients oneDNN
/// avx512; bf16 ours avx512_bf16". It depends on the processor, the build and the backend; where two runs
/// differ in it, so do the roundings of their products.
std::string matmul_kernels();

namespace ops {

/// The matrix product by NumPy's rules: (..., m, k) by (..., k, n) gives (..., m, n), leading dimensions
/// broadcast; a vector on the left is a row, on the right a column, and that dimension is dropped from the
/// result. Transposed operands are read in place. bf16 and f16 are accumulated in f32 and rounded once. A sum
/// over no elements is 0. The same operands and number of threads always give the same bits; with another
/// number of threads, or as a block of a larger product, results agree to rounding. Throws ShapeError,
/// DTypeError (dtypes differ or are not floating).
Tensor matmul(const Tensor& a, const Tensor& b);

/// The product of two matrices, of two batches of matrices, of a matrix and a vector, and of two vectors (a
/// 0-dim result). Throw as `matmul`, and ShapeError for other numbers of dimensions.
/// @{
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
/// @}
/// The matrix a_i b_j of two vectors. Throws ShapeError for other numbers of dimensions.
Tensor outer(const Tensor& a, const Tensor& b);
/// Throws ShapeError naming `name` and the general function `instead` unless a and b have these numbers of
/// dimensions.
void require_ndims(const char* name, const Tensor& a, int ndim_a, const Tensor& b, int ndim_b,
                   const char* instead);
/// Throws ShapeError unless a and b are equally many matrices, as `bmm` takes them.
void require_batches(const Tensor& a, const Tensor& b);

/// `matmul` into `out` (shape (..., m, n), any strides; bf16 and f16 operands may have an f32 `out`). An
/// `out` that overlaps an operand costs a copy. Throws ValueError when elements of `out` overlap. Raises the
/// version of `out`.
void matmul_out(const Tensor& out, const Tensor& a, const Tensor& b);

/// Adds the product to `out`, as a weight's gradient is accumulated.
void matmul_accumulate(const Tensor& out, const Tensor& a, const Tensor& b);

/// While one lives, in any thread, `matmul_out`, `matmul_accumulate` and `activation_linear_backward` note
/// the sum of squares of an f32 product (`Tensor::noted_squares`) where they have it without another pass: of
/// bf16 operands by our kernels on vectors or tiles, of f32 ones a weight's gradient by our kernels. So a
/// norm of weight gradients does not read them again.
class ProductSquaresScope {
 public:
  ProductSquaresScope();
  ~ProductSquaresScope();
  ProductSquaresScope(const ProductSquaresScope&) = delete;
  ProductSquaresScope& operator=(const ProductSquaresScope&) = delete;
};

/// y = x W^T + b: x (..., in), weight (out, in), bias (out) or undefined; y (..., out). One product for all
/// leading dimensions.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Throws, naming `name`, unless the operands of a linear layer fit each other: ShapeError; for a bias of
/// another dtype DTypeError, on another device DeviceError.
void check_linear(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace ops
}  // namespace tessera
