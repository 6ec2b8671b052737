#include "tensor/cuda/elementwise/elementwise.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/types/dtype_switch.h"

namespace tessera::kernels::cuda {
namespace {

/// The element type of a tensor on a device.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, bool>, Boolean, T>;

/// Tensors of a training step change between these types.
template <class T>
constexpr bool is_training_float =
    std::is_same_v<T, float> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

template <class From, class To>
struct Convert {
  static constexpr bool is_frequent = is_training_float<From> && is_training_float<To>;
  static constexpr int side_by_side = is_frequent ? short_function : 1;
  __device__ To operator()(From x) const { return stored<To>(loaded(x)); }
};

/// Every element becomes one value.
template <class T>
struct Constant {
  static constexpr int side_by_side = short_function;
  T value;
  __device__ T operator()() const { return value; }
};

}  // namespace

void cast(const Tensor& x, const Tensor& out) {
  if (x.dtype() == out.dtype()) return copy(x, out);
  with_any(x.dtype(), [&]<class F>(TypeTag<F>) {
    with_any(out.dtype(), [&]<class T>(TypeTag<T>) {
      using From = Element<F>;
      using To = Element<T>;
      if constexpr (!std::is_same_v<F, T>) apply<To, From>("cast", Convert<From, To>(), out, x);
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
