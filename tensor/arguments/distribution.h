#pragma once

#include <cstdint>

namespace tessera::ops {

/// A distribution and its parameters (see tensor/ops/creation/random.h).
struct Distribution {
  /// The distributions.
  enum class Kind : uint8_t { uniform, normal, truncated_normal, bernoulli };
  Kind kind;            ///< which one
  double location = 0;  ///< low of a uniform, mean of a normal, the probability of an event
  double scale = 1;     ///< width of a uniform, deviation of a normal
  double low = 0;       ///< the lower bound of a truncated normal, in deviations from the mean
  double high = 0;      ///< the upper one
};

}  // namespace tessera::ops
