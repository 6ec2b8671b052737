#include <type_traits>

#include "tensor/cpu/isa/stored.h"
#include "tensor/cpu/loops/elementwise_blocks.h"
#include "tensor/cpu/loops/independent_iterations.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

using elementwise::Bf16;
using elementwise::F16;

/// The value of an element in arithmetic: 16-bit floats in f32, bool as an integer.
template <class T>
TESSERA_ELEMENT auto load(T x) {
  if constexpr (std::is_same_v<T, Boolean>)
    return x.byte;
  else if constexpr (std::is_integral_v<T>)
    return x;
  else
    return widen(x);
}

/// Converts a value of type From to an element of type To.
template <class To, class From>
struct Store {
  static TESSERA_ELEMENT To call(From x) {
    if constexpr (static_cast<From>(0.5) != From(0) && static_cast<To>(0.5) == To(0))
      return elementwise::to_integer<To>(x);
    else
      return static_cast<To>(x);
  }
};
template <class From>
struct Store<Bf16, From> {
  static TESSERA_ELEMENT Bf16 call(From x) { return elementwise::to_bf16(static_cast<float>(x)); }
};
template <class From>
struct Store<F16, From> {
  static TESSERA_ELEMENT F16 call(From x) { return elementwise::to_f16(static_cast<float>(x)); }
};
template <class From>
struct Store<Boolean, From> {
  static TESSERA_ELEMENT Boolean call(From x) { return {static_cast<uint8_t>(x != From(0))}; }
};

template <class From, class To>
void convert_loop(const void* x_bytes, void* y_bytes, int64_t n) {
  const From* x = static_cast<const From*>(x_bytes);
  To* y = static_cast<To*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = Store<To, decltype(load(x[i]))>::call(load(x[i]));
}

template <class From>
UnaryBlock convert_from(DType to) {
  switch (to) {
    case DType::f64:
      return &convert_loop<From, double>;
    case DType::f32:
      return &convert_loop<From, float>;
    case DType::bf16:
      return &convert_loop<From, Bf16>;
    case DType::f16:
      return &convert_loop<From, F16>;
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
      return convert_from<Bf16>(to);
    case DType::f16:
      return convert_from<F16>(to);
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

}  // namespace tessera::kernels::cpu::TESSERA_ISA
