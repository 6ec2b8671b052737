#pragma once  // internal

#include "tensor/arguments/op_names.h"
#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/cuda/elementwise/unary/unary.h"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/trigonometric.h"

/// The unary kernels of one element type; a source for each type, so that they compile side by side.
namespace tessera::kernels::cuda {

/// Wraps the elementwise function `name` into a functor from elements to elements.
#define TESSERA_UNARY_FUNCTION(name)                                                            \
  template <class In, class Out>                                                                \
  struct unary_##name {                                                                         \
    __device__ Out operator()(In x) const { return stored<Out>(elementwise::name(loaded(x))); } \
  };

TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_PREDICATES(TESSERA_UNARY_FUNCTION)

#undef TESSERA_UNARY_FUNCTION

#define TESSERA_UNARY_CASE(name) \
  case UnaryOp::name:            \
    return apply<T, T>(#name, unary_##name<T, T>(), out, x);
#define TESSERA_PREDICATE_CASE(name) \
  case UnaryOp::name:                \
    return apply<Boolean, T>(#name, unary_##name<T, Boolean>(), out, x);

template <class T>
void unary_of(UnaryOp op, const Tensor& x, const Tensor& out) {
  if constexpr (std::is_floating_point_v<Computed<T>>) {
    switch (op) {
      TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE_CASE)
      default:
        break;
    }
  } else {
    switch (op) {
      TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_CASE)
      default:
        break;
    }
  }
  throw DTypeError(text(name_of(op), ": no kernel for ", x.dtype()));
}

#undef TESSERA_UNARY_CASE
#undef TESSERA_PREDICATE_CASE

}  // namespace tessera::kernels::cuda
