// One pass forward, and one for both gradients.
#include "tensor/cuda/layers/gated.h"

#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/activation.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// f and f' dy for each gate, as types.
#define TESSERA_GATE(name)                        \
  struct name##_gate {                            \
    template <class A>                            \
    static __device__ A value(A x) {              \
      return elementwise::name(x);                \
    }                                             \
    template <class A>                            \
    static __device__ A gradient(A x, A dy) {     \
      return elementwise::name##_backward(x, dy); \
    }                                             \
  };
TESSERA_GATE(silu)
TESSERA_GATE(gelu)
TESSERA_GATE(gelu_tanh)
TESSERA_GATE(relu)
#undef TESSERA_GATE

struct sigmoid_gate {
  template <class A>
  static __device__ A value(A x) {
    return elementwise::sigmoid(x);
  }
  template <class A>
  static __device__ A gradient(A x, A dy) {
    return elementwise::sigmoid_backward(elementwise::sigmoid(x), dy);
  }
};

template <class Function, class T>
struct Forward {
  static constexpr int side_by_side = frequent_function;
  __device__ T operator()(T gate, T x) const { return stored<T>(Function::value(loaded(gate)) * loaded(x)); }
};

/// The gradients of the gate and of x.
template <class Function, class T>
struct Backward {
  static constexpr int side_by_side = frequent_function;
  __device__ ElementPair<T> operator()(T gate, T x, T dy) const {
    const Computed<T> g = loaded(gate), gradient = loaded(dy);
    return {stored<T>(Function::gradient(g, gradient * loaded(x))), stored<T>(Function::value(g) * gradient)};
  }
};

/// Calls `body` with a value of the gate's type.
template <class Body>
void of_gate(Gate f, const Body& body) {
  switch (f) {
    case Gate::silu:
      return body(silu_gate());
    case Gate::gelu:
      return body(gelu_gate());
    case Gate::gelu_tanh:
      return body(gelu_tanh_gate());
    case Gate::relu:
      return body(relu_gate());
    default:
      return body(sigmoid_gate());
  }
}

}  // namespace

void gated(Gate f, const Tensor& gate, const Tensor& x, const Tensor& y) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_gate(f,
            [&]<class Function>(Function) { apply<T, T, T>("gated", Forward<Function, T>(), y, gate, x); });
  });
}

void gated_backward(Gate f, const Tensor& gate, const Tensor& x, const Tensor& dy, const Tensor& dgate,
                    const Tensor& dx) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_gate(f, [&]<class Function>(Function) {
      apply_pair<T, T, T, T>("gated_backward", Backward<Function, T>(), dgate, dx, gate, x, dy);
    });
  });
}

}  // namespace tessera::kernels::cuda
