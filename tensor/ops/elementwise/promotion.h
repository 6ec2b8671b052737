#pragma once

#include "tensor/tensor.h"

namespace tessera::ops {

/// The dtype to which two operands are promoted, as in the Python array API: the wider of the same kind (bf16
/// with f16 gives f32; u8 with i32 gives i32). Throws DTypeError naming `where` and the cast to write for
/// mixed kinds.
DType promote(DType a, DType b, const char* where);

/// The result of an elementwise operation: the operands' broadcast shape, on their common device.
Tensor broadcast_result(const char* where, std::initializer_list<const Tensor*> operands, DType dtype);

/// Throws unless `out` can take a result of `shape` and `dtype`: ShapeError for another shape, DTypeError for
/// another dtype (any floating dtype takes a floating result), ValueError when elements of `out` overlap
/// (tensor/overlap.h).
void check_out(const char* where, const Tensor& out, const Shape& shape, DType dtype);

/// `operand` expanded to `shape`: for an output that was just allocated, which overlaps no operand.
Tensor prepare_operand(const Tensor& operand, const Shape& shape);

/// `operand` expanded to the shape of `out`; copied first when it overlaps `out` other than element on
/// element, so that no element is read after it was written.
Tensor prepare_operand(const Tensor& operand, const Tensor& out);

}  // namespace tessera::ops
