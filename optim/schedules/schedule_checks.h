#pragma once  // internal

#include <cmath>
#include <cstdint>
#include <optional>

#include "tensor/error.h"

/// Checks of the options of schedules. Each throws ConfigError, naming schedule, option and value.
namespace tessera::optim {

/// Finite and at least 0.
inline void require_rate(const char* schedule, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value >= 0.0, schedule, ": expected ", option,
                       " to be at least 0, got ", value);
}
/// The same for an option that may be missing.
inline void require_rate(const char* schedule, const char* option, std::optional<double> value) {
  if (value) require_rate(schedule, option, *value);
}
/// Finite and above 0.
inline void require_above_zero(const char* schedule, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value > 0.0, schedule, ": expected ", option, " above 0, got ",
                       value);
}
/// A number of steps of at least `least`.
inline void require_steps(const char* schedule, const char* option, int64_t steps, int64_t least) {
  require<ConfigError>(steps >= least, schedule, ": expected ", option, " to be at least ", least, ", got ",
                       steps);
}

}  // namespace tessera::optim
