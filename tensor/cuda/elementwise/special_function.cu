#include "tensor/elementwise/special_function.h"

#include "tensor/cuda/elementwise/activation_function.h"
#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

#define TESSERA_FUNCTIONS(X) X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(digamma) X(erfinv) X(lgamma)

/// Computed in f64, and rounded to the type that the elements are computed in.
#define TESSERA_FUNCTION(name)                                                                       \
  template <class T>                                                                                 \
  struct special_##name {                                                                            \
    __device__ T operator()(T x) const {                                                             \
      return stored<T>(static_cast<Computed<T>>(elementwise::name(static_cast<double>(loaded(x))))); \
    }                                                                                                \
  };
TESSERA_FUNCTIONS(TESSERA_FUNCTION)
#undef TESSERA_FUNCTION

template <class T>
struct special_polygamma {
  int64_t order;
  __device__ T operator()(T x) const {
    return stored<T>(static_cast<Computed<T>>(elementwise::polygamma(order, static_cast<double>(loaded(x)))));
  }
};

template <class T>
struct special_atan2 {
  __device__ T operator()(T a, T b) const {
    return stored<T>(static_cast<Computed<T>>(
        elementwise::atan2(static_cast<double>(loaded(a)), static_cast<double>(loaded(b)))));
  }
};
template <class T>
struct special_copysign {
  __device__ T operator()(T a, T b) const {
    return stored<T>(elementwise::with_sign_of(elementwise::abs(loaded(a)), loaded(b)));
  }
};
template <class T>
struct special_hypot {
  __device__ T operator()(T a, T b) const {
    return stored<T>(static_cast<Computed<T>>(
        elementwise::hypot(static_cast<double>(loaded(a)), static_cast<double>(loaded(b)))));
  }
};
template <class T>
struct special_nextafter {
  __device__ T operator()(T a, T b) const { return stored<T>(elementwise::nextafter(loaded(a), loaded(b))); }
};

}  // namespace

void special_function(SpecialFunction f, int64_t order, const Tensor& x, const Tensor& y) {
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
#define TESSERA_CASE(name)    \
  case SpecialFunction::name: \
    return apply<T, T>(#name, special_##name<T>(), y, as_dtype(x, y.dtype()));
    switch (f) {
      TESSERA_FUNCTIONS(TESSERA_CASE)
      case SpecialFunction::polygamma:
        return apply<T, T>("polygamma", special_polygamma<T>{order}, y, as_dtype(x, y.dtype()));
    }
#undef TESSERA_CASE
  });
}

void special_function_of_two(SpecialFunctionOfTwo f, const Tensor& first, const Tensor& second,
                             const Tensor& y) {
  const Tensor a = as_dtype(first, y.dtype()), b = as_dtype(second, y.dtype());
  with_floating(y.dtype(), [&]<class T>(TypeTag<T>) {
#define TESSERA_CASE(name)         \
  case SpecialFunctionOfTwo::name: \
    return apply<T, T, T>(#name, special_##name<T>(), y, a, b);
    switch (f) {
      TESSERA_CASE(atan2)
      TESSERA_CASE(copysign)
      TESSERA_CASE(hypot)
      TESSERA_CASE(nextafter)
    }
#undef TESSERA_CASE
  });
}

}  // namespace tessera::kernels::cuda
