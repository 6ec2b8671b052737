#include "tensor/cpu/loops/convert.h"

#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/to_integer.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// The type in which an element is converted: f32 for the half types, a byte for bool, else its own.
template <class T>
using Loaded =
    std::conditional_t<is_half<T>, float, std::conditional_t<std::is_same_v<T, Boolean>, uint8_t, T>>;

/// Converts a loaded value to an element of type To.
template <class To, class A>
TESSERA_ELEMENT To stored(A x) {
  if constexpr (std::is_floating_point_v<A> && std::is_integral_v<To>)
    return elementwise::to_integer<To>(x);
  else
    return narrow<To>(x);
}

template <class From, class To>
void convert_all(const From* x, int64_t n, To* y) {
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = stored<To>(widen<Loaded<From>>(x[i]));
}

template <class From, class To>
void convert_loop(const void* x, void* y, int64_t n) {
  convert_all(static_cast<const From*>(x), n, static_cast<To*>(y));
}

template <class From>
UnaryBlock convert_from(DType to) {
  switch (to) {
    case DType::f64:
      return &convert_loop<From, double>;
    case DType::f32:
      return &convert_loop<From, float>;
    case DType::bf16:
      return &convert_loop<From, bfloat16>;
    case DType::f16:
      return &convert_loop<From, float16>;
    case DType::i64:
      return &convert_loop<From, int64_t>;
    case DType::i32:
      return &convert_loop<From, int32_t>;
    case DType::u8:
      return &convert_loop<From, uint8_t>;
    case DType::boolean:
      return &convert_loop<From, Boolean>;
  }
  return nullptr;
}

}  // namespace

UnaryBlock convert_block(DType from, DType to) {
  switch (from) {
    case DType::f64:
      return convert_from<double>(to);
    case DType::f32:
      return convert_from<float>(to);
    case DType::bf16:
      return convert_from<bfloat16>(to);
    case DType::f16:
      return convert_from<float16>(to);
    case DType::i64:
      return convert_from<int64_t>(to);
    case DType::i32:
      return convert_from<int32_t>(to);
    case DType::u8:
      return convert_from<uint8_t>(to);
    case DType::boolean:
      return convert_from<Boolean>(to);
  }
  return nullptr;
}

void widen_bf16(const bfloat16* from, int64_t n, float* to) {
  convert_all(from, n, to);
}
void widen_f16(const float16* from, int64_t n, float* to) {
  convert_all(from, n, to);
}
void narrow_bf16(const float* from, int64_t n, bfloat16* to) {
  convert_all(from, n, to);
}
void narrow_f16(const float* from, int64_t n, float16* to) {
  convert_all(from, n, to);
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
