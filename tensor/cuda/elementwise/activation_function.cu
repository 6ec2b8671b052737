#include "tensor/elementwise/activation_function.h"

#include "tensor/cuda/elementwise/activation_function.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

template <class T>
using Parameters = elementwise::ActivationParameters<Computed<T>>;

template <class T>
Parameters<T> parameters_of(const ActivationFunction& f) {
  using A = Computed<T>;
  return {static_cast<A>(f.a), static_cast<A>(f.b), static_cast<A>(f.c)};
}

template <class Function, class T>
struct Value {
  static constexpr int side_by_side = frequent_function;
  Parameters<T> parameters;
  __device__ T operator()(T x) const { return stored<T>(Function::value(loaded(x), parameters)); }
};

template <class Function, class T>
struct Gradient {
  static constexpr int side_by_side = frequent_function;
  Parameters<T> parameters;
  __device__ T operator()(T x, T dy) const {
    return stored<T>(Function::gradient(loaded(x), loaded(dy), parameters));
  }
};

template <class T>
struct Sloped {
  static constexpr int side_by_side = frequent_function;
  __device__ T operator()(T x, T slope) const {
    return loaded(x) > Computed<T>(0) ? x : stored<T>(loaded(slope) * loaded(x));
  }
};
template <class T>
struct SlopedGradient {
  static constexpr int side_by_side = frequent_function;
  __device__ T operator()(T x, T slope, T dy) const {
    return loaded(x) > Computed<T>(0) ? dy : stored<T>(loaded(slope) * loaded(dy));
  }
};
template <class T>
struct SlopeGradient {
  static constexpr int side_by_side = frequent_function;
  __device__ T operator()(T x, T dy) const {
    return stored<T>(loaded(x) > Computed<T>(0) ? Computed<T>(0) : loaded(x) * loaded(dy));
  }
};

template <class Function>
struct FunctionTag {
  using type = Function;
};

/// Calls `body` with the tag of the kind's struct.
template <class Body>
void of_kind(ActivationKind kind, const Body& body) {
#define TESSERA_CASE(name)   \
  case ActivationKind::name: \
    return body(FunctionTag<elementwise::activation_##name>());
  switch (kind) {
    TESSERA_CASE(elu)
    TESSERA_CASE(hardshrink)
    TESSERA_CASE(hardsigmoid)
    TESSERA_CASE(hardswish)
    TESSERA_CASE(hardtanh)
    TESSERA_CASE(leaky_relu)
    TESSERA_CASE(logsigmoid)
    TESSERA_CASE(mish)
    TESSERA_CASE(softplus)
    TESSERA_CASE(softshrink)
    TESSERA_CASE(softsign)
    TESSERA_CASE(tanhshrink)
    TESSERA_CASE(threshold)
  }
#undef TESSERA_CASE
}

}  // namespace

void activation(const ActivationFunction& f, const Tensor& x, const Tensor& y) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_kind(f.kind, [&]<class Function>(FunctionTag<Function>) {
      apply<T, T>(name_of(f.kind), Value<Function, T>{parameters_of<T>(f)}, y, x);
    });
  });
}

void activation_backward(const ActivationFunction& f, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    of_kind(f.kind, [&]<class Function>(FunctionTag<Function>) {
      apply<T, T, T>(name_of(f.kind), Gradient<Function, T>{parameters_of<T>(f)}, dx, x, dy);
    });
  });
}

void prelu(const Tensor& x, const Tensor& slope, const Tensor& y) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) { apply<T, T, T>("prelu", Sloped<T>(), y, x, slope); });
}

void prelu_backward(const Tensor& x, const Tensor& slope, const Tensor& dy, const Tensor& dx) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    apply<T, T, T, T>("prelu_backward", SlopedGradient<T>(), dx, x, slope, dy);
  });
}

void prelu_slope_backward(const Tensor& x, const Tensor& dy, const Tensor& out) {
  with_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    apply<T, T, T>("prelu_slope_backward", SlopeGradient<T>(), out, x, dy);
  });
}

}  // namespace tessera::kernels::cuda
