#pragma once  // not in tessera.h

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::training {

/// How much a message matters. `off`, of a filter, is above all messages.
enum class LogLevel { debug, info, warning, error, off };

/// "debug", "info", "warning", "error", "off".
const char* name_of(LogLevel level);

/// The lowest level that is written, for each component. A component's name has parts between dots; a rule
/// for "dist" holds for "dist.checkpoint" too, unless that has a rule of its own.
///
///     LogFilter::parse("-dist.checkpoint,+train,train.config=warning")
///
/// silences dist.checkpoint, writes all of train, and of train.config warnings and errors alone.
class LogFilter {
 public:
  /// `info` and above, of every component.
  LogFilter() = default;
  /// Rules between commas: `-name` is silent, `+name` is written from debug on, and `name=level` or
  /// `+name=level` from that level on; "all" is every component without a rule. "": no rule. Throws
  /// ConfigError: `place`, the rule, what is expected.
  static LogFilter parse(std::string_view rules, const std::string& place = "log filter");
  /// Of an environment variable; no rule where it is not set. Throws as `parse`, naming the variable.
  static LogFilter from_environment(const char* variable = "TESSERA_LOGS");

  /// The lowest level of a component that is written.
  LogLevel level(std::string_view component) const;

 private:
  std::vector<std::pair<std::string, LogLevel>> levels_;  // by component, no name twice
};

}  // namespace tessera::training
