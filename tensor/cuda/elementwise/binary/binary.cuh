#pragma once  // internal

#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/binary/binary.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"

/// The binary kernels of one element type; a source for each type, so that they compile side by side.
namespace tessera::kernels::cuda {

namespace binary_functions {

/// Wraps the elementwise function `name` into a type.
#define TESSERA_BINARY_FUNCTION(name)       \
  struct name {                             \
    template <class T>                      \
    static __device__ auto call(T a, T b) { \
      return elementwise::name(a, b);       \
    }                                       \
  };
TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_FUNCTION)
TESSERA_BINARY_COMPARISONS(TESSERA_BINARY_FUNCTION)
#undef TESSERA_BINARY_FUNCTION

}  // namespace binary_functions

/// Function as a functor of two elements.
template <class Function, class T, class Out>
struct OfTwo {
  __device__ Out operator()(T a, T b) const { return stored<Out>(Function::call(loaded(a), loaded(b))); }
};

/// Function with one operand fixed.
template <class Function, class T, class Out>
struct WithScalar {
  Computed<T> scalar;
  bool scalar_first;
  __device__ Out operator()(T x) const {
    const Computed<T> value = loaded(x);
    return stored<Out>(Function::call(scalar_first ? scalar : value, scalar_first ? value : scalar));
  }
};

template <class Function, class T, class Out>
void apply_binary(const char* name, const BinaryOperands& operands, const Tensor& out) {
  if (operands.b != nullptr)
    return apply<Out, T, T>(name, OfTwo<Function, T, Out>(), out, operands.a, *operands.b);
  WithScalar<Function, T, Out> f{{}, operands.scalar_first};
  const DType type = std::is_same_v<T, Boolean> ? boolean : dtype_of<Computed<T>>;
  operands.scalar.write(type, &f.scalar, name);
  apply<Out, T>(name, f, out, operands.a);
}

#define TESSERA_BINARY_CASE(name) \
  case BinaryOp::name:            \
    return apply_binary<binary_functions::name, T, T>(#name, operands, out);
#define TESSERA_COMPARISON_CASE(name) \
  case BinaryOp::name:                \
    return apply_binary<binary_functions::name, T, Boolean>(#name, operands, out);

template <class Element>
void binary_of(BinaryOp op, const BinaryOperands& operands, const Tensor& out) {
  using T = std::conditional_t<std::is_same_v<Element, bool>, Boolean, Element>;
  if constexpr (std::is_floating_point_v<Computed<T>>) {
    switch (op) {
      TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_FLOAT_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        break;
    }
  } else if constexpr (std::is_same_v<T, Boolean>) {
    switch (op) {
      TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        break;
    }
  } else {
    switch (op) {
      TESSERA_BINARY_NUMERIC_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_INTEGER_OPS(TESSERA_BINARY_CASE)
      TESSERA_BINARY_COMPARISONS(TESSERA_COMPARISON_CASE)
      default:
        break;
    }
  }
  throw DTypeError(text(name_of(op), ": no kernel for ", operands.a.dtype()));
}

#undef TESSERA_BINARY_CASE
#undef TESSERA_COMPARISON_CASE

}  // namespace tessera::kernels::cuda
