#include "tensor/elementwise/special_function.h"

#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/cpu/loops/special_blocks.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

#define TESSERA_FUNCTIONS(X) X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(digamma) X(erfinv) X(lgamma)

#define TESSERA_FUNCTION(name)                                                  \
  struct special_##name {                                                       \
    static TESSERA_ELEMENT double of(double x) { return elementwise::name(x); } \
  };
TESSERA_FUNCTIONS(TESSERA_FUNCTION)
#undef TESSERA_FUNCTION

template <class Function, class T>
void loop(int64_t, const void* x_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(Function::of(static_cast<double>(x[i])));
}

template <class T>
void polygamma_loop(int64_t order, const void* x_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(elementwise::polygamma(order, static_cast<double>(x[i])));
}

struct special_atan2 {
  template <class T>
  static TESSERA_ELEMENT T of(T a, T b) {
    return static_cast<T>(elementwise::atan2(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct special_copysign {
  template <class T>
  static TESSERA_ELEMENT T of(T a, T b) {
    return elementwise::with_sign_of(elementwise::abs(a), b);
  }
};
struct special_hypot {
  template <class T>
  static TESSERA_ELEMENT T of(T a, T b) {
    return static_cast<T>(elementwise::hypot(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct special_nextafter {
  template <class T>
  static TESSERA_ELEMENT T of(T a, T b) {
    return elementwise::nextafter(a, b);
  }
};

template <class Function, class T>
void loop_of_two(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t n) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* y = static_cast<T*>(y_bytes);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = Function::of(a[i], b[i]);
}

}  // namespace

SpecialBlock special_block(SpecialFunction f, DType type) {
  const bool wide = type == DType::f64;
#define TESSERA_CASE(name)    \
  case SpecialFunction::name: \
    return wide ? &loop<special_##name, double> : &loop<special_##name, float>;
  switch (f) {
    TESSERA_FUNCTIONS(TESSERA_CASE)
    case SpecialFunction::polygamma:
      return wide ? &polygamma_loop<double> : &polygamma_loop<float>;
  }
#undef TESSERA_CASE
  return nullptr;
}

SpecialBlockOfTwo special_block_of_two(SpecialFunctionOfTwo f, DType type) {
  const bool wide = type == DType::f64;
#define TESSERA_CASE(name)         \
  case SpecialFunctionOfTwo::name: \
    return wide ? &loop_of_two<special_##name, double> : &loop_of_two<special_##name, float>;
  switch (f) {
    TESSERA_CASE(atan2)
    TESSERA_CASE(copysign)
    TESSERA_CASE(hypot)
    TESSERA_CASE(nextafter)
  }
#undef TESSERA_CASE
  return nullptr;
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
