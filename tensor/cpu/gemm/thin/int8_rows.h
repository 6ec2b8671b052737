#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/tensor.h"

/// Rows of a weight to and from signed 8-bit integers with a scale.
namespace tessera::kernels::cpu {

TESSERA_DECLARE_PER_ISA(
    // The scale of n values, max |w| / 127, not finite where a value is not, and their nearest integers.
    float quantize_row(const float* from, int64_t n, int8_t* to);
    // scale * q.
    void widen_int8(const int8_t* from, int64_t n, float scale, float* to);)

/// As `ops::quantize_rows`, of a contiguous weight. A row that is not finite has a scale that is not.
void quantize_rows(const Tensor& weight, const Tensor& values, const Tensor& scales);

/// As `ops::dequantize_rows`, to a contiguous out of f32 or bf16.
void dequantize_rows(const Tensor& values, const Tensor& scales, const Tensor& out);

}  // namespace tessera::kernels::cpu
