// The operations of TESSERA_UNARY_WITH_GRADIENT_OPS: value and gradient in one pass, and the value alone.
// Half types are widened and rounded in the same loop. f32 and the half types are computed in groups of
// registers.
#include "tensor/cpu/loops/value_and_gradient.h"

#include "tensor/cpu/isa/float_group.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/gelu.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// The elements that a call of a loop's body takes.
#if defined(__FMA__)
template <class T>
inline constexpr int64_t step_of = std::is_same_v<T, double> ? 1 : FloatGroup::count;
#else
template <class T>
inline constexpr int64_t step_of = 1;
#endif

template <class T>
[[gnu::always_inline]] inline auto load_step(const T* p) {
#if defined(__FMA__)
  if constexpr (step_of < T >> 1)
    return load_group(p);
  else
#endif
    return widen<accumulator_of<T>>(*p);
}
template <class T, class V>
[[gnu::always_inline]] inline void store_step(T* p, const V& v) {
#if defined(__FMA__)
  if constexpr (step_of < T >> 1)
    store_group(p, v);
  else
#endif
    *p = narrow<T>(v);
}

template <class Function, class T>
[[gnu::always_inline]] inline void value_step(const T* x, T* y) {
  store_step(y, Function::value(load_step(x)));
}
template <class Function, class T>
void value_loop(const void* x_bytes, void* y_bytes, int64_t n) {
  constexpr int64_t step = step_of<T>;
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  int64_t i = 0;
  TESSERA_INDEPENDENT_ITERATIONS
  for (; i + step <= n; i += step) value_step<Function>(x + i, y + i);
  if (i == n) return;
  T last[step] = {};
  for (int64_t j = 0; i + j < n; ++j) last[j] = x[i + j];
  value_step<Function>(last, last);
  for (int64_t j = 0; i + j < n; ++j) y[i + j] = last[j];
}

template <class Function, class T>
[[gnu::always_inline]] inline void gradient_step(const T* x, const T* dy, T* y, T* dx) {
  const auto both = Function::with_gradient(load_step(x), load_step(dy));
  store_step(y, both.value);
  store_step(dx, both.gradient);
}
template <class Function, class T>
void gradient_loop(const void* x_bytes, const void* dy_bytes, void* y_bytes, void* dx_bytes, int64_t n) {
  constexpr int64_t step = step_of<T>;
  const T *x = static_cast<const T*>(x_bytes), *dy = static_cast<const T*>(dy_bytes);
  T *y = static_cast<T*>(y_bytes), *dx = static_cast<T*>(dx_bytes);
  int64_t i = 0;
  TESSERA_INDEPENDENT_ITERATIONS
  for (; i + step <= n; i += step) gradient_step<Function>(x + i, dy + i, y + i, dx + i);
  if (i == n) return;
  T last[step] = {}, last_dy[step] = {};
  for (int64_t j = 0; i + j < n; ++j) last[j] = x[i + j], last_dy[j] = dy[i + j];
  gradient_step<Function>(last, last_dy, last, last_dy);
  for (int64_t j = 0; i + j < n; ++j) y[i + j] = last[j], dx[i + j] = last_dy[j];
}

template <class Function>
GradientBlock gradient_of(DType type) {
  switch (type) {
    case DType::f64:
      return &gradient_loop<Function, double>;
    case DType::f32:
      return &gradient_loop<Function, float>;
    case DType::bf16:
      return &gradient_loop<Function, bfloat16>;
    case DType::f16:
      return &gradient_loop<Function, float16>;
    default:
      return nullptr;
  }
}

template <class Function>
UnaryBlock value_of(DType type) {
  switch (type) {
    case DType::f32:
      return &value_loop<Function, float>;
    case DType::bf16:
      return &value_loop<Function, bfloat16>;
    case DType::f16:
      return &value_loop<Function, float16>;
    default:
      return nullptr;
  }
}

/// Wraps the elementwise functions `name` and `name_with_gradient` into a type.
#define TESSERA_FUNCTIONS(name)                            \
  struct functions_##name {                                \
    template <class T>                                     \
    static TESSERA_ELEMENT auto value(T x) {               \
      return elementwise::name(x);                         \
    }                                                      \
    template <class T>                                     \
    static TESSERA_ELEMENT auto with_gradient(T x, T dy) { \
      return elementwise::name##_with_gradient(x, dy);     \
    }                                                      \
  };
TESSERA_UNARY_WITH_GRADIENT_OPS(TESSERA_FUNCTIONS)

}  // namespace

#define TESSERA_GRADIENT_CASE(name) \
  case UnaryOp::name:               \
    return gradient_of<functions_##name>(type);
#define TESSERA_VALUE_CASE(name) \
  case UnaryOp::name:            \
    return value_of<functions_##name>(type);

GradientBlock gradient_block(UnaryOp op, DType type) {
  switch (op) {
    TESSERA_UNARY_WITH_GRADIENT_OPS(TESSERA_GRADIENT_CASE)
    default:
      return nullptr;
  }
}

UnaryBlock direct_unary_block(UnaryOp op, DType type) {
  switch (op) {
    TESSERA_UNARY_WITH_GRADIENT_OPS(TESSERA_VALUE_CASE)
    default:
      return nullptr;
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
