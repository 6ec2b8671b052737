#include "tensor/cuda/layers/activation_linear.h"

#include "tensor/arguments/activation_table.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/activation.h"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// f(x) and f'(x) dy. What both need (an exponential) is computed once: the compiler sees both.
#define TESSERA_ACTIVATION(name)                                               \
  template <class T>                                                           \
  struct name##_pair {                                                         \
    static constexpr int side_by_side = frequent_function;                     \
    __device__ ElementPair<T> operator()(T x, T dy) const {                    \
      return {stored<T>(elementwise::name(loaded(x))),                         \
              stored<T>(elementwise::name##_backward(loaded(x), loaded(dy)))}; \
    }                                                                          \
  };
TESSERA_ACTIVATION(gelu_tanh)
TESSERA_ACTIVATION(relu)
TESSERA_ACTIVATION(silu)
#undef TESSERA_ACTIVATION

template <class T>
struct gelu_pair {
  static constexpr int side_by_side = frequent_function;
  __device__ ElementPair<T> operator()(T x, T dy) const {
    const auto both = elementwise::gelu_with_gradient(loaded(x), loaded(dy));
    return {stored<T>(both.value), stored<T>(both.gradient)};
  }
};

template <template <class> class Function>
void run(const char* name, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  with_floating(x.dtype(),
                [&]<class T>(TypeTag<T>) { apply_pair<T, T, T>(name, Function<T>(), y, dx, x, dy); });
}

}  // namespace

void activation_gradient(Activation f, const Tensor& x, const Tensor& dy, const Tensor& y, const Tensor& dx) {
  const char* name = "activation_gradient";
  switch (f) {
    case Activation::gelu:
      return run<gelu_pair>(name, x, dy, y, dx);
    case Activation::gelu_tanh:
      return run<gelu_tanh_pair>(name, x, dy, y, dx);
    case Activation::relu:
      return run<relu_pair>(name, x, dy, y, dx);
    case Activation::silu:
      return run<silu_pair>(name, x, dy, y, dx);
  }
}

}  // namespace tessera::kernels::cuda
