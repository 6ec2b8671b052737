#pragma once  // internal

#include "tensor/cuda/elementwise/binary/binary.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"

/// The binary kernels of an element type.
namespace tessera::kernels::cuda {

namespace binary_functions {

/// Wraps the elementwise function `name` into a type, as one of a few instructions, or a frequent one, or
/// neither.
#define TESSERA_BINARY_FUNCTION(name, elements)   \
  struct name {                                   \
    static constexpr int side_by_side = elements; \
    template <class T>                            \
    static __device__ auto call(T a, T b) {       \
      return elementwise::name(a, b);             \
    }                                             \
  };
#define TESSERA_SHORT_FUNCTION(name) TESSERA_BINARY_FUNCTION(name, short_function)
TESSERA_SHORT_FUNCTION(add)
TESSERA_SHORT_FUNCTION(sub)
TESSERA_SHORT_FUNCTION(mul)
TESSERA_SHORT_FUNCTION(maximum)
TESSERA_SHORT_FUNCTION(minimum)
TESSERA_SHORT_FUNCTION(relu_backward)
TESSERA_SHORT_FUNCTION(sigmoid_backward)
TESSERA_SHORT_FUNCTION(tanh_backward)
TESSERA_BINARY_INTEGER_OPS(TESSERA_SHORT_FUNCTION)
TESSERA_BINARY_COMPARISONS(TESSERA_SHORT_FUNCTION)
TESSERA_BINARY_FUNCTION(div, frequent_function)
TESSERA_BINARY_FUNCTION(silu_backward, frequent_function)
TESSERA_BINARY_FUNCTION(gelu_backward, frequent_function)
TESSERA_BINARY_FUNCTION(gelu_tanh_backward, frequent_function)
TESSERA_BINARY_FUNCTION(softplus_backward, 1)
TESSERA_BINARY_FUNCTION(pow, 1)
TESSERA_BINARY_FUNCTION(floor_divide, 1)
TESSERA_BINARY_FUNCTION(remainder, 1)
#undef TESSERA_SHORT_FUNCTION
#undef TESSERA_BINARY_FUNCTION

}  // namespace binary_functions

/// Function as a functor of two elements.
template <class Function, class T, class Out>
struct OfTwo {
  static constexpr int side_by_side = Function::side_by_side;
  __device__ Out operator()(T a, T b) const { return stored<Out>(Function::call(loaded(a), loaded(b))); }
};

/// Function with one operand fixed.
template <class Function, class T, class Out>
struct WithScalar : ScalarOperand<Computed<T>> {
  static constexpr int side_by_side = Function::side_by_side;
  __device__ Out operator()(T x) const {
    const Computed<T> value = loaded(x);
    return stored<Out>(
        Function::call(this->scalar_first ? this->scalar : value, this->scalar_first ? value : this->scalar));
  }
};

template <class Function, class T, class Out>
LoopKernel binary_kernel_of(bool with_scalar) {
  return with_scalar ? loop_kernel<WithScalar<Function, T, Out>, Out, T>()
                     : loop_kernel<OfTwo<Function, T, Out>, Out, T, T>();
}

#define TESSERA_BINARY_CASE(name) \
  case BinaryOp::name:            \
    return binary_kernel_of<binary_functions::name, T, T>(with_scalar);
#define TESSERA_COMPARISON_CASE(name) \
  case BinaryOp::name:                \
    return binary_kernel_of<binary_functions::name, T, Boolean>(with_scalar);

template <class Element>
LoopKernel binary_kernel(BinaryOp op, bool with_scalar) {
  using T = std::conditional_t<std::is_same_v<Element, bool>, Boolean, Element>;
  if constexpr (std::is_floating_point_v<Computed<T>>) {
    switch (op) {
      TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        return {};
    }
  } else if constexpr (std::is_same_v<T, Boolean>) {
    switch (op) {
      TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        return {};
    }
  } else {
    switch (op) {
      TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        return {};
    }
  }
}

#undef TESSERA_BINARY_CASE
#undef TESSERA_COMPARISON_CASE

}  // namespace tessera::kernels::cuda
