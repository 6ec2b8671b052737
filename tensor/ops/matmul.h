#pragma once

#include "tensor/tensor.h"

namespace tessera {

/// Who computes matrix products on the CPU. Eigen is the complete reference; oneDNN serves f32 everywhere and
/// bf16 where the processor multiplies it. `automatic` takes oneDNN where it is built, but for bf16 on
/// vectors (AVX512-BF16 without AMX), where our own kernels are as fast and add up into f32 buffers.
enum class MatmulBackend : uint8_t { automatic, eigen, onednn };

/// Chooses for the whole process; the default is `automatic`. Throws NotBuiltError for a backend that this
/// build does not have.
void set_matmul_backend(MatmulBackend backend);
MatmulBackend matmul_backend();

namespace ops {

/// The matrix product by NumPy's rules: (..., m, k) by (..., k, n) gives (..., m, n), leading dimensions
/// broadcast; a vector on the left counts as a row, on the right as a column, and that dimension goes away.
/// Transposed operands are read where they lie. bf16 and f16 are accumulated in f32 and rounded once. A
/// product over zero elements is zero. The same operands give the same bits at one number of threads, run
/// after run; at another number, or as a part of a larger product, the same to rounding. Throws ShapeError,
/// DTypeError (dtypes differ or are not floating).
Tensor matmul(const Tensor& a, const Tensor& b);

/// The same into `out` (shape (..., m, n), any strides; bf16 and f16 operands may have an f32 `out`). An
/// `out` that overlaps an operand costs a copy. Throws ValueError when elements of `out` lie on each other.
/// Counts a change of `out`.
void matmul_out(const Tensor& out, const Tensor& a, const Tensor& b);

/// Adds the product to `out`: how a weight's gradient is accumulated in place.
void matmul_accumulate(const Tensor& out, const Tensor& a, const Tensor& b);

/// y = x W^T + b: x (..., in), weight (out, in), bias (out) or undefined; y (..., out). One product for all
/// leading dimensions.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Throws, naming `name`, unless the operands of a linear layer fit each other: ShapeError; for a bias of
/// another dtype DTypeError, on another device DeviceError.
void check_linear(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace ops
}  // namespace tessera
