#pragma once

#include "tensor/arguments/quantized_weight.h"

/// Linear layers with a weight that is stored as 8-bit integers, for inference. tensor/cpu/gemm/README.md
/// says how their products are computed.
namespace tessera::ops {

/// The nearest integers of each row, halves to even: scales[j] = max_p |w[j, p]| / 127 and q = w / scales[j].
/// A row of zeros has scale 0, and so has one with a scale below the smallest normal f32. weight
/// (out, in), f32 or bf16 on the CPU. Throws ShapeError, DTypeError, NotBuiltError for another device, and
/// ValueError for a NaN or an infinity, naming its row.
QuantizedWeight quantize_rows(const Tensor& weight);

/// scales[j] * q[j, p], rounded to `dtype`: f32 or bf16. Throws as `quantized_linear` for values and
/// scales that do not belong together.
Tensor dequantize_rows(const QuantizedWeight& weight, DType dtype = f32);

/// y = x W^T + b: x (..., in), f32 or bf16, bias (out) of x's dtype or undefined; y (..., out) of x's dtype.
/// Up to 16 rows of x read the integers in place, sum in f32 and round once; a row's bits depend neither on
/// the other rows nor on the number of threads. More rows multiply with ranges of W's rows in x's dtype.
/// Throws ShapeError, DTypeError (for integers that are not u8 or scales that are not f32 too), DeviceError,
/// NotBuiltError for a device other than the CPU.
Tensor quantized_linear(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias = {});

/// x W^T in `out` (..., out), contiguous and of x's dtype or f32, which holds the sums of a bf16 product
/// unrounded. Throws as `quantized_linear`, and ValueError for an `out` that overlaps x.
void quantized_linear_out(const Tensor& out, const Tensor& x, const QuantizedWeight& weight);

/// Throws as `quantized_linear` unless x, weight and bias fit each other. Returns their device.
Device check_quantized_linear(const char* op, const Tensor& x, const QuantizedWeight& weight,
                              const Tensor& bias);

}  // namespace tessera::ops
