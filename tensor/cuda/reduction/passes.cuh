#pragma once  // internal

#include <cstdint>

#include "tensor/cuda/elementwise/element.cuh"
#include "tensor/elementwise/arithmetic.h"
#include "tensor/elementwise/exp.h"
#include "tensor/elementwise/power.h"

/// What a pass over the elements of a reduction does with each: a map, and the sum, product or extreme of
/// what it gives.
namespace tessera::kernels::cuda {

enum class Pass : uint8_t {
  sum,
  product,
  largest,  ///< NaN if a value is NaN, as for the other extremes
  smallest,
  count_of_nonzeros,
  sum_of_magnitudes,
  sum_of_squares,
  sum_of_deviations,          ///< from the result's first element
  sum_of_squared_deviations,  ///< from the result's parameter
  sum_of_powers,              ///< |x| to the power of the parameter
  sum_of_exponentials,        ///< exp(x - the result's parameter)
  largest_magnitude,
  smallest_magnitude,
};

constexpr bool is_largest(Pass pass) {
  return pass == Pass::largest || pass == Pass::largest_magnitude;
}
constexpr bool is_smallest(Pass pass) {
  return pass == Pass::smallest || pass == Pass::smallest_magnitude;
}

/// The value of an element in a pass. A is the type that is computed in.
template <Pass P, class A>
__device__ __forceinline__ A mapped(A x, A parameter) {
  if constexpr (P == Pass::count_of_nonzeros)
    return x != A(0) ? A(1) : A(0);
  else if constexpr (P == Pass::sum_of_magnitudes || P == Pass::largest_magnitude ||
                     P == Pass::smallest_magnitude)
    return elementwise::abs(x);
  else if constexpr (P == Pass::sum_of_squares)
    return x * x;
  else if constexpr (P == Pass::sum_of_deviations)
    return x - parameter;
  else if constexpr (P == Pass::sum_of_squared_deviations)
    return (x - parameter) * (x - parameter);
  else if constexpr (P == Pass::sum_of_powers)
    return elementwise::pow(elementwise::abs(x), parameter);
  else if constexpr (P == Pass::sum_of_exponentials)
    return elementwise::exp(x - parameter);
  else
    return x;
}

/// Two values of a pass as one.
template <Pass P, class A>
__device__ __forceinline__ A combined(A a, A b) {
  if constexpr (P == Pass::product)
    return a * b;
  else if constexpr (is_largest(P))
    return b > a || b != b ? b : a;
  else if constexpr (is_smallest(P))
    return b < a || b != b ? b : a;
  else
    return a + b;
}

/// The value of no elements.
template <Pass P, class A>
__device__ __forceinline__ A identity() {
  if constexpr (P == Pass::product)
    return A(1);
  else if constexpr (is_largest(P) || is_smallest(P)) {
    if constexpr (std::is_floating_point_v<A>)
      return is_largest(P) ? -elementwise::Floating<A>::infinity : elementwise::Floating<A>::infinity;
    else
      return is_largest(P) ? A(INT64_MIN) : A(INT64_MAX);
  } else
    return A(0);
}

/// What becomes of a result after its passes.
enum class Finish : uint8_t {
  as_is,
  divided,             ///< by `factor`
  root,                ///< the square root
  divided_root,        ///< the square root of the quotient
  power,               ///< to the power of `factor`
  at_least,            ///< 1 where it is at least `factor`, else 0
  finite,              ///< 0 where it is infinite: the shift of logsumexp
  logarithm_shifted,   ///< log, plus the result's parameter
  mean_of_deviations,  ///< the first element plus the quotient by `factor`
};

}  // namespace tessera::kernels::cuda
