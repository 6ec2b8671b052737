#pragma once

#include <cstdint>

namespace tessera {

/// A function of one element that has no list of its own in tensor/elementwise/op_lists.h: inverse
/// trigonometric and hyperbolic functions, and those of the gamma and error functions.
enum class SpecialFunction : uint8_t {
  acos,       ///< the inverse cosine, from 0 to pi
  acosh,      ///< the inverse hyperbolic cosine
  asin,       ///< the inverse sine, from -pi/2 to pi/2
  asinh,      ///< the inverse hyperbolic sine
  atan,       ///< the inverse tangent
  atanh,      ///< the inverse hyperbolic tangent
  digamma,    ///< the derivative of lgamma
  erfinv,     ///< the inverse of the error function
  lgamma,     ///< log |gamma(x)|
  polygamma,  ///< the n-th derivative of digamma
};

/// A function of two elements alike.
enum class SpecialFunctionOfTwo : uint8_t {
  atan2,      ///< the angle of the point (b, a)
  copysign,   ///< |a| with the sign of b
  hypot,      ///< sqrt(a^2 + b^2)
  nextafter,  ///< the number next to a in the direction of b
};

/// The name in errors and profiles: "asin".
/// @{
const char* name_of(SpecialFunction f);
const char* name_of(SpecialFunctionOfTwo f);
/// @}

}  // namespace tessera
