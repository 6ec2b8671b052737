#pragma once  // not in tessera.h

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "dist/train/log/log_filter.h"
#include "tensor/error.h"

namespace tessera::training {

/// A message of the library.
struct LogRecord {
  LogLevel level;              ///< debug to error
  std::string_view component;  ///< "dist.checkpoint"
  const std::string& message;  ///< without a line break at its end
};

/// Where messages go. Calls of one logger and its copies come one at a time, from any thread.
using LogSink = std::function<void(const LogRecord&)>;

/// Writes "[warning] train.config: message" and a line break. The stream must outlive the logger.
LogSink stream_sink(std::ostream& out);

/// The messages of a program and of the library. Without a sink there is no output.
///
///     const training::Logger log(training::stream_sink(std::cerr), training::LogFilter::from_environment());
///     training::initialize(model, {.config = "ds_config.json", .log = log});
///
/// Copies share the sink. The components of the library:
///
///     train.config      warnings of a configuration file, and its keys that have no effect
///     train.engine      steps that loss scaling skips
///     train.step        the lines of StepLog
///     train.trace       a trace without the steps that were asked for
///     train.callback    what callbacks throw after the exception that ended a run
///     dist.checkpoint   checkpoints that are saved and loaded
class Logger {
 public:
  /// Writes nothing.
  Logger() = default;
  /// Passes what the filter allows to the sink. Throws ConfigError for an empty function.
  explicit Logger(LogSink sink, LogFilter filter = {});

  /// Whether there is a sink.
  bool has_sink() const { return output_ != nullptr; }
  /// Whether a message of this kind reaches the sink.
  bool is_enabled(LogLevel level, std::string_view component) const;
  /// Passes a message on where it is enabled. Throws what the sink throws.
  void write(LogLevel level, std::string_view component, const std::string& message) const;

  /// Messages of the levels; the text is made of the parts, and only where it is enabled.
  /// @{
  template <class... Parts>
  void debug(std::string_view component, const Parts&... parts) const {
    write_parts(LogLevel::debug, component, parts...);
  }
  template <class... Parts>
  void info(std::string_view component, const Parts&... parts) const {
    write_parts(LogLevel::info, component, parts...);
  }
  template <class... Parts>
  void warning(std::string_view component, const Parts&... parts) const {
    write_parts(LogLevel::warning, component, parts...);
  }
  template <class... Parts>
  void error(std::string_view component, const Parts&... parts) const {
    write_parts(LogLevel::error, component, parts...);
  }
  /// @}

 private:
  template <class... Parts>
  void write_parts(LogLevel level, std::string_view component, const Parts&... parts) const {
    if (is_enabled(level, component)) write(level, component, text(parts...));
  }

  struct Output;
  std::shared_ptr<Output> output_;  // null: there is no sink
};

}  // namespace tessera::training
