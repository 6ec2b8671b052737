// Gated linear units: value, and both gradients in one pass, which computes the exponential once.
#include "tensor/cpu/loops/gated_rows.h"

#include "tensor/cpu/loops/convert.h"
#include "tensor/cpu/loops/independent_iterations.h"
#include "tensor/elementwise/activation.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

/// f and f' dy for each gate, as types.
#define TESSERA_GATE(name)                         \
  struct name##_gate {                             \
    template <class A>                             \
    static TESSERA_ELEMENT A value(A x) {          \
      return elementwise::name(x);                 \
    }                                              \
    template <class A>                             \
    static TESSERA_ELEMENT A gradient(A x, A dy) { \
      return elementwise::name##_backward(x, dy);  \
    }                                              \
  };
TESSERA_GATE(silu)
TESSERA_GATE(gelu)
TESSERA_GATE(gelu_tanh)
TESSERA_GATE(relu)
#undef TESSERA_GATE

struct sigmoid_gate {
  template <class A>
  static TESSERA_ELEMENT A value(A x) {
    return elementwise::sigmoid(x);
  }
  template <class A>
  static TESSERA_ELEMENT A gradient(A x, A dy) {
    return elementwise::sigmoid_backward(elementwise::sigmoid(x), dy);
  }
};

template <class Function, class T>
void forward(const void* gates, const void* values, int64_t n, void* results) {
  using A = accumulator_of<T>;
  const T *gate = static_cast<const T*>(gates), *x = static_cast<const T*>(values);
  T* const y = static_cast<T*>(results);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) y[i] = narrow<T>(Function::value(widen<A>(gate[i])) * widen<A>(x[i]));
}

template <class Function, class T>
void backward(const void* gates, const void* values, const void* dys, int64_t n, void* dgates, void* dxs) {
  using A = accumulator_of<T>;
  const T *gate = static_cast<const T*>(gates), *x = static_cast<const T*>(values),
          *dy = static_cast<const T*>(dys);
  T *const dgate = static_cast<T*>(dgates), *const dx = static_cast<T*>(dxs);
  TESSERA_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const A g = widen<A>(gate[i]), value = widen<A>(x[i]), gradient = widen<A>(dy[i]);
    dgate[i] = narrow<T>(Function::gradient(g, gradient * value));
    dx[i] = narrow<T>(Function::value(g) * gradient);
  }
}

template <class Function>
GatedRows rows_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {&forward<Function, double>, &backward<Function, double>};
    case DType::bf16:
      return {&forward<Function, bfloat16>, &backward<Function, bfloat16>};
    case DType::f16:
      return {&forward<Function, float16>, &backward<Function, float16>};
    default:
      return {&forward<Function, float>, &backward<Function, float>};
  }
}

}  // namespace

GatedRows gated_rows(Gate f, DType dtype) {
  switch (f) {
    case Gate::silu:
      return rows_of<silu_gate>(dtype);
    case Gate::gelu:
      return rows_of<gelu_gate>(dtype);
    case Gate::gelu_tanh:
      return rows_of<gelu_tanh_gate>(dtype);
    case Gate::relu:
      return rows_of<relu_gate>(dtype);
    default:
      return rows_of<sigmoid_gate>(dtype);
  }
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
