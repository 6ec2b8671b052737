#pragma once

#include <cmath>
#include <cstdint>

namespace tessera {

/// The p-norms that distances are computed in: each has a loop of its own.
enum class DistanceNorm : uint8_t {
  count,      ///< p = 0: how many coordinates differ
  sum,        ///< p = 1
  euclidean,  ///< p = 2
  largest,    ///< p infinite
  general     ///< any other p above 0
};

/// The norm of p, which is not negative.
inline DistanceNorm distance_norm(double p) {
  if (p == 0) return DistanceNorm::count;
  if (p == 1) return DistanceNorm::sum;
  if (p == 2) return DistanceNorm::euclidean;
  return std::isinf(p) ? DistanceNorm::largest : DistanceNorm::general;
}

}  // namespace tessera
