#include "dist/train/callbacks/monitored.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "tensor/error.h"

namespace tessera::training {

bool is_better(double value, double than, Best best, double min_delta) {
  return best == Best::lowest ? value < than - min_delta : value > than + min_delta;
}

double worst(Best best) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return best == Best::lowest ? infinity : -infinity;
}

double monitored_value(const std::string& callback, const std::string& name,
                       const std::map<std::string, double>& logged) {
  const auto found = logged.find(name);
  if (found != logged.end()) return found->second;
  std::string names;
  for (const auto& [each, value] : logged) names += (names.empty() ? "" : ", ") + each;
  throw ConfigError(text(callback, ": expected '", name, "' among what the task logs, got ",
                         names.empty() ? "nothing" : names));
}

std::string to_state(double value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

double from_state(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require<CheckpointError>(error == std::errc() && end == text.data() + text.size(),
                           "state of a callback: expected a number, got '", text, "'");
  return value;
}

}  // namespace tessera::training
