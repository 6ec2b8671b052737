#pragma once

#include <cstdint>

#include "tensor/types/host_device.h"

namespace tessera::ops {

/// Evenly spaced values, computed in i64 or f64.
struct Sequence {
  /// Which values element i has.
  enum class Kind : uint8_t {
    integers,  ///< first + i step
    reals,     ///< start + i spacing
    between,   ///< start + i spacing up to the middle, and end - (count - 1 - i) spacing from there
  };
  Kind kind = Kind::integers;
  int64_t first = 0, step = 1;
  double start = 0, end = 0, spacing = 0;
  int64_t count = 0;

  /// Element i of `integers`; wraps around.
  TESSERA_ELEMENT int64_t integer(int64_t i) const {
    return static_cast<int64_t>(static_cast<uint64_t>(first) +
                                static_cast<uint64_t>(i) * static_cast<uint64_t>(step));
  }
  /// Element i of the others.
  TESSERA_ELEMENT double real(int64_t i) const {
    if (kind == Kind::reals || i < (count + 1) / 2) return start + static_cast<double>(i) * spacing;
    return end - static_cast<double>(count - 1 - i) * spacing;
  }
};

}  // namespace tessera::ops
