#include "tensor/cuda/elementwise/binary/binary.h"

#include "tensor/cuda/elementwise/elementwise.h"

namespace tessera::kernels::cuda {
namespace {

void dispatch(BinaryOp op, DType type, const BinaryOperands& operands, const Tensor& out) {
  switch (type) {
    case DType::f64:
      return binary_of<double>(op, operands, out);
    case DType::f32:
      return binary_of<float>(op, operands, out);
    case DType::bf16:
      return binary_of<bfloat16>(op, operands, out);
    case DType::f16:
      return binary_of<float16>(op, operands, out);
    case DType::i64:
      return binary_of<int64_t>(op, operands, out);
    case DType::i32:
      return binary_of<int32_t>(op, operands, out);
    case DType::u8:
      return binary_of<uint8_t>(op, operands, out);
    case DType::boolean:
      return binary_of<bool>(op, operands, out);
  }
}

}  // namespace

void binary(BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor left = as_dtype(a, type), right = as_dtype(b, type);
  dispatch(op, type, {.a = left, .b = &right}, out);
}

void binary_scalar(BinaryOp op, DType type, const Tensor& x, const Scalar& scalar, bool scalar_first,
                   const Tensor& out) {
  const Tensor values = as_dtype(x, type);
  dispatch(op, type, {.a = values, .scalar = scalar, .scalar_first = scalar_first}, out);
}

}  // namespace tessera::kernels::cuda
