#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/trigonometric.h"

namespace tessera::kernels::cuda {
namespace {

/// Wraps the elementwise function `name` into a functor from elements to elements.
#define TESSERA_UNARY_FUNCTION(name)                                                            \
  template <class In, class Out>                                                                \
  struct unary_##name {                                                                         \
    __device__ Out operator()(In x) const { return stored<Out>(elementwise::name(loaded(x))); } \
  };

TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_PREDICATES(TESSERA_UNARY_FUNCTION)

#define TESSERA_UNARY_CASE(name) \
  case UnaryOp::name:            \
    return apply<T, T>(#name, unary_##name<T, T>(), out, x);
#define TESSERA_PREDICATE_CASE(name) \
  case UnaryOp::name:                \
    return apply<Boolean, T>(#name, unary_##name<T, Boolean>(), out, x);

[[noreturn]] void throw_no_kernel(UnaryOp op, DType type) {
  throw DTypeError(text(name_of(op), ": no kernel for ", type));
}

template <class T>
void floating(UnaryOp op, const Tensor& x, const Tensor& out) {
  switch (op) {
    TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE_CASE)
    default:
      throw_no_kernel(op, x.dtype());
  }
}

template <class T>
void integers(UnaryOp op, const Tensor& x, const Tensor& out) {
  switch (op) {
    TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
    TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_CASE)
    default:
      throw_no_kernel(op, x.dtype());
  }
}

}  // namespace

void unary(UnaryOp op, DType type, const Tensor& given, const Tensor& out) {
  const Tensor x = as_dtype(given, type);
  switch (type) {
    case DType::f64:
      return floating<double>(op, x, out);
    case DType::f32:
      return floating<float>(op, x, out);
    case DType::bf16:
      return floating<bfloat16>(op, x, out);
    case DType::f16:
      return floating<float16>(op, x, out);
    case DType::i64:
      return integers<int64_t>(op, x, out);
    case DType::i32:
      return integers<int32_t>(op, x, out);
    case DType::u8:
      return integers<uint8_t>(op, x, out);
    default:
      throw_no_kernel(op, type);
  }
}

}  // namespace tessera::kernels::cuda
