// The operations of TESSERA_UNARY_WITH_GRADIENT_OPS: value and gradient in one pass, and the value alone.
// Half types are widened and rounded in the same loop. Registers are taken in groups where arithmetic is what
// takes the time.
#include "tensor/cpu/loops/value_and_gradient.h"

#include "tensor/cpu/isa/float_group.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/gelu.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

template <class Function, class T>
void value_loop(const void* x_bytes, void* y_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  int64_t i = 0;
#if defined(__FMA__)
  for (; i + FloatGroup::count <= n; i += FloatGroup::count)
    store_group(y + i, Function::value(load_group(x + i)));
#endif
  TESSERA_INDEPENDENT_ITERATIONS
  for (; i < n; ++i) y[i] = narrow<T>(Function::value(widen<float>(x[i])));
}

template <class Function, class T>
void gradient_loop(const void* x_bytes, const void* dy_bytes, void* y_bytes, void* dx_bytes, int64_t n) {
  using A = accumulator_of<T>;
  const T *x = static_cast<const T*>(x_bytes), *dy = static_cast<const T*>(dy_bytes);
  T *y = static_cast<T*>(y_bytes), *dx = static_cast<T*>(dx_bytes);
  int64_t i = 0;
#if defined(__FMA__)
  if constexpr (is_half<T> || std::is_same_v<T, float>)
    for (; i + FloatGroup::count <= n; i += FloatGroup::count) {
      const auto both = Function::with_gradient(load_group(x + i), load_group(dy + i));
      store_group(y + i, both.value);
      store_group(dx + i, both.gradient);
    }
#endif
  TESSERA_INDEPENDENT_ITERATIONS
  for (; i < n; ++i) {
    const elementwise::ValueAndGradient<A> both = Function::with_gradient(widen<A>(x[i]), widen<A>(dy[i]));
    y[i] = narrow<T>(both.value);
    dx[i] = narrow<T>(both.gradient);
  }
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
