#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// The element type of a tensor on a device.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, bool>, Boolean, T>;

template <class From, class To>
struct Convert {
  __device__ To operator()(From x) const { return stored<To>(loaded(x)); }
};

/// Every element becomes one value.
template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

}  // namespace

void cast(const Tensor& x, const Tensor& out) {
  with_any(x.dtype(), [&]<class F>(TypeTag<F>) {
    with_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      using From = Element<F>;
      using To = Element<T>;
      apply<To, From>("cast", Convert<From, To>(), out, x);
    });
  });
}

Tensor as_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor converted = Tensor::empty(x.shape(), dtype, x.device());
  cast(x, converted);
  return converted;
}

void fill(const Tensor& out, const Scalar& value) {
  with_any(out.dtype(), [&]<class T>(TypeTag<T>) {
    Constant<Element<T>> constant{};
    value.write(out.dtype(), &constant.value, "fill");
    apply<Element<T>>("fill", constant, out);
  });
}

}  // namespace tessera::kernels::cuda
