#include "tensor/cuda/elementwise/binary/binary.h"

#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

LoopKernel kernel_of(BinaryOp op, DType type, bool with_scalar) {
  const LoopKernel kernel =
      with_any(type, [&]<class T>(TypeTag<T>) { return binary_kernel<T>(op, with_scalar); });
  require<DTypeError>(kernel.function != nullptr, name_of(op), ": no kernel for ", type);
  return kernel;
}

template <class A>
void with_scalar(BinaryOp op, DType type, DType computed, const Tensor& x, const Scalar& scalar,
                 bool scalar_first, const Tensor& out) {
  ScalarOperand<A> f{{}, scalar_first};
  scalar.write(computed, &f.scalar, name_of(op));
  launch_loop(name_of(op), kernel_of(op, type, true), &f, {&out, &x});
}

}  // namespace

void binary(BinaryOp op, DType type, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor left = as_dtype(a, type), right = as_dtype(b, type);
  const char functor = 0;
  launch_loop(name_of(op), kernel_of(op, type, false), &functor, {&out, &left, &right});
}

void binary_scalar(BinaryOp op, DType type, const Tensor& given, const Scalar& scalar, bool scalar_first,
                   const Tensor& out) {
  const Tensor x = as_dtype(given, type);
  switch (type) {
    case DType::f64:
      return with_scalar<double>(op, type, type, x, scalar, scalar_first, out);
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return with_scalar<float>(op, type, f32, x, scalar, scalar_first, out);
    case DType::i64:
      return with_scalar<int64_t>(op, type, type, x, scalar, scalar_first, out);
    case DType::i32:
      return with_scalar<int32_t>(op, type, type, x, scalar, scalar_first, out);
    default:
      return with_scalar<uint8_t>(op, type, type, x, scalar, scalar_first, out);
  }
}

}  // namespace tessera::kernels::cuda
