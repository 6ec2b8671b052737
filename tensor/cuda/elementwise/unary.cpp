#include "tensor/cuda/elementwise/unary/unary.h"
#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/elementwise.h"

namespace tessera::kernels::cuda {

void unary(UnaryOp op, DType type, const Tensor& given, const Tensor& out) {
  const Tensor x = as_dtype(given, type);
  switch (type) {
    case DType::f64:
      return unary_of<double>(op, x, out);
    case DType::f32:
      return unary_of<float>(op, x, out);
    case DType::bf16:
      return unary_of<bfloat16>(op, x, out);
    case DType::f16:
      return unary_of<float16>(op, x, out);
    case DType::i64:
      return unary_of<int64_t>(op, x, out);
    case DType::i32:
      return unary_of<int32_t>(op, x, out);
    case DType::u8:
      return unary_of<uint8_t>(op, x, out);
    default:
      throw DTypeError(text(name_of(op), ": no kernel for ", type));
  }
}

}  // namespace tessera::kernels::cuda
