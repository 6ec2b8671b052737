#pragma once  // internal

#include "tensor/elementwise/target.h"

TESSERA_ELEMENTWISE_BEGIN

/// The integer part of x, clamped to Int's range; 0 for NaN. (C++ leaves these cases undefined.)
template <class Int, class Float>
TESSERA_ELEMENT Int to_integer(Float x) {
  constexpr Float low = static_cast<Float>(
      static_cast<Int>(-1) < Int(0) ? -static_cast<Float>(uint64_t{1} << (8 * sizeof(Int) - 1)) : 0);
  constexpr Float limit =
      static_cast<Float>(static_cast<Int>(-1) < Int(0) ? uint64_t{1} << (8 * sizeof(Int) - 1) : 256);
  // The largest Float below the limit: limit - 1, or the limit's predecessor where Float is coarser than 1.
  constexpr Float high = limit - Float(1) < limit
                             ? limit - Float(1)
                             : limit * (Float(1) - (sizeof(Float) == 4 ? Float(0x1p-24) : Float(0x1p-53)));
  Float bounded = x == x ? x : Float(0);
  bounded = bounded < low ? low : bounded;
  bounded = bounded > high ? high : bounded;
  return static_cast<Int>(bounded);
}

TESSERA_ELEMENTWISE_END
