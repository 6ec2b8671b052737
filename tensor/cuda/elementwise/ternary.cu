#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/arithmetic.h"

namespace tessera::kernels::cuda {
namespace {

#define TESSERA_TERNARY_FUNCTION(name)                                              \
  template <class T>                                                                \
  struct ternary_##name {                                                           \
    static constexpr int side_by_side = short_function;                             \
    Computed<T> factor;                                                             \
    __device__ T operator()(T a, T b, T c) const {                                  \
      return stored<T>(elementwise::name(loaded(a), loaded(b), loaded(c), factor)); \
    }                                                                               \
  };
TESSERA_TERNARY_FLOAT_OPS(TESSERA_TERNARY_FUNCTION)
TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_FUNCTION)

#define TESSERA_TERNARY_CASE(name) \
  case TernaryOp::name:            \
    return apply<T, T, T, T>(#name, ternary_##name<T>{static_cast<Computed<T>>(factor)}, out, a, b, c);

template <class T>
void floating(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
              const Tensor& out) {
  switch (op) {
    TESSERA_TERNARY_FLOAT_OPS(TESSERA_TERNARY_CASE)
    TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_CASE)
  }
}

template <class T>
void integers(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double factor,
              const Tensor& out) {
  switch (op) {
    TESSERA_TERNARY_NUMERIC_OPS(TESSERA_TERNARY_CASE)
    default:
      throw DTypeError(text(name_of(op), ": no kernel for ", a.dtype()));
  }
}

/// condition ? a : b, for elements of any type that has the size of T.
template <class T>
struct Choose {
  static constexpr int side_by_side = short_function;
  __device__ T operator()(uint8_t condition, T a, T b) const { return condition != 0 ? a : b; }
};

template <class T>
void choose(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
  apply<T, uint8_t, T, T>("where", Choose<T>(), out, condition, a, b);
}

}  // namespace

void ternary(TernaryOp op, DType type, const Tensor& first, const Tensor& second, const Tensor& third,
             double factor, const Tensor& out) {
  const Tensor a = as_dtype(first, type), b = as_dtype(second, type), c = as_dtype(third, type);
  switch (type) {
    case DType::f64:
      return floating<double>(op, a, b, c, factor, out);
    case DType::f32:
      return floating<float>(op, a, b, c, factor, out);
    case DType::bf16:
      return floating<bfloat16>(op, a, b, c, factor, out);
    case DType::f16:
      return floating<float16>(op, a, b, c, factor, out);
    case DType::i64:
      return integers<int64_t>(op, a, b, c, factor, out);
    case DType::i32:
      return integers<int32_t>(op, a, b, c, factor, out);
    case DType::u8:
      return integers<uint8_t>(op, a, b, c, factor, out);
    default:
      throw DTypeError(text(name_of(op), ": no kernel for ", type));
  }
}

void where(const Tensor& condition, const Tensor& first, const Tensor& second, const Tensor& out) {
  const Tensor a = as_dtype(first, out.dtype()), b = as_dtype(second, out.dtype());
  switch (size_of(out.dtype())) {
    case 8:
      return choose<uint64_t>(condition, a, b, out);
    case 4:
      return choose<uint32_t>(condition, a, b, out);
    case 2:
      return choose<uint16_t>(condition, a, b, out);
    default:
      return choose<uint8_t>(condition, a, b, out);
  }
}

}  // namespace tessera::kernels::cuda
