#include "optim/option_table.h"

#include <cmath>

namespace tessera::optim {

void require_not_negative(const std::string& optimizer, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value >= 0.0, optimizer, ": expected ", option,
                       " to be at least 0, got ", value);
}

void require_fraction(const std::string& optimizer, const char* option, double value) {
  require<ConfigError>(value >= 0.0 && value < 1.0, optimizer, ": expected ", option, " in [0, 1), got ",
                       value);
}

void require_above_zero(const std::string& optimizer, const char* option, double value) {
  require<ConfigError>(std::isfinite(value) && value > 0.0, optimizer, ": expected ", option,
                       " above 0, got ", value);
}

void require_at_least(const std::string& optimizer, const char* option, int64_t count, int64_t least) {
  require<ConfigError>(count >= least, optimizer, ": expected ", option, " to be at least ", least, ", got ",
                       count);
}

}  // namespace tessera::optim
