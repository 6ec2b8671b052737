#include "tensor/cuda/elementwise/unary/unary.h"

#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/elementwise.h"

namespace tessera::kernels::cuda {
namespace {

LoopKernel kernel_of(UnaryOp op, DType type) {
  switch (type) {
    case DType::f64:
      return unary_kernel<double>(op);
    case DType::f32:
      return unary_kernel<float>(op);
    case DType::bf16:
      return unary_kernel<bfloat16>(op);
    case DType::f16:
      return unary_kernel<float16>(op);
    case DType::i64:
      return unary_kernel<int64_t>(op);
    case DType::i32:
      return unary_kernel<int32_t>(op);
    case DType::u8:
      return unary_kernel<uint8_t>(op);
    default:
      return {};
  }
}

}  // namespace

void unary(UnaryOp op, DType type, const Tensor& given, const Tensor& out) {
  const LoopKernel kernel = kernel_of(op, type);
  require<DTypeError>(kernel.function != nullptr, name_of(op), ": no kernel for ", type);
  const Tensor x = as_dtype(given, type);
  const char functor = 0;
  launch_loop(name_of(op), kernel, &functor, {&out, &x});
}

}  // namespace tessera::kernels::cuda
