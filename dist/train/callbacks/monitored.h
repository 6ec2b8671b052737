#pragma once  // not in tessera.h

#include <map>
#include <string>

namespace tessera::training {

/// Whether lower or higher values of a metric are better.
enum class Best { lowest, highest };

/// Whether `value` is better than `than` by more than `min_delta`.
bool is_better(double value, double than, Best best, double min_delta = 0);
/// The worst value there is: infinity where lower is better.
double worst(Best best);
/// The value of a name that a callback watches. Throws ConfigError, naming the callback, the name and the
/// names that the task logs, where there is none.
double monitored_value(const std::string& callback, const std::string& name,
                       const std::map<std::string, double>& logged);

/// A number as text, and back to the same number.
/// @{
std::string to_state(double value);
double from_state(const std::string& text);
/// @}

}  // namespace tessera::training
