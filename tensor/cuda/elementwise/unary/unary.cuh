#pragma once  // internal

#include "tensor/cuda/elementwise/loop.cuh"
#include "tensor/cuda/elementwise/unary/unary.h"
#include "tensor/elementwise/activation.h"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/trigonometric.h"

/// The unary kernels of an element type.
namespace tessera::kernels::cuda {

/// Elements that a thread computes side by side.
constexpr int side_by_side_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::trunc:
    case UnaryOp::neg:
    case UnaryOp::abs:
    case UnaryOp::sign:
    case UnaryOp::square:
    case UnaryOp::relu:
    case UnaryOp::bitwise_not:
    case UnaryOp::isnan:
    case UnaryOp::isinf:
    case UnaryOp::isfinite:
      return short_function;
    case UnaryOp::exp:
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
    case UnaryOp::tanh:
    case UnaryOp::sigmoid:
    case UnaryOp::gelu:
    case UnaryOp::gelu_tanh:
    case UnaryOp::silu:
      return frequent_function;
    default:
      return 1;
  }
}

/// Wraps the elementwise function `name` into a functor from elements to elements.
#define TESSERA_UNARY_FUNCTION(name)                                                            \
  template <class In, class Out>                                                                \
  struct unary_##name {                                                                         \
    static constexpr int side_by_side = side_by_side_of(UnaryOp::name);                         \
    __device__ Out operator()(In x) const { return stored<Out>(elementwise::name(loaded(x))); } \
  };

TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_FUNCTION)
TESSERA_UNARY_PREDICATES(TESSERA_UNARY_FUNCTION)

#undef TESSERA_UNARY_FUNCTION

#define TESSERA_UNARY_CASE(name) \
  case UnaryOp::name:            \
    return loop_kernel<unary_##name<T, T>, T, T>();
#define TESSERA_PREDICATE_CASE(name) \
  case UnaryOp::name:                \
    return loop_kernel<unary_##name<T, Boolean>, Boolean, T>();

template <class T>
LoopKernel unary_kernel(UnaryOp op) {
  if constexpr (std::is_floating_point_v<Computed<T>>) {
    switch (op) {
      TESSERA_UNARY_FLOAT_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_PREDICATES(TESSERA_PREDICATE_CASE)
      default:
        return {};
    }
  } else {
    switch (op) {
      TESSERA_UNARY_NUMERIC_OPS(TESSERA_UNARY_CASE)
      TESSERA_UNARY_INTEGER_OPS(TESSERA_UNARY_CASE)
      default:
        return {};
    }
  }
}

#undef TESSERA_UNARY_CASE
#undef TESSERA_PREDICATE_CASE

}  // namespace tessera::kernels::cuda
