#include "dist/train/log/logger.h"

#include <mutex>
#include <ostream>
#include <utility>

namespace tessera::training {

struct Logger::Output {
  LogSink sink;
  LogFilter filter;
  std::mutex mutex;
};

LogSink stream_sink(std::ostream& out) {
  return [&out](const LogRecord& record) {
    out << "[" << name_of(record.level) << "] " << record.component << ": " << record.message << std::endl;
  };
}

Logger::Logger(LogSink sink, LogFilter filter) : output_(std::make_shared<Output>()) {
  require<ConfigError>(sink != nullptr, "Logger: expected a function that takes messages, got none");
  output_->sink = std::move(sink);
  output_->filter = std::move(filter);
}

bool Logger::is_enabled(LogLevel level, std::string_view component) const {
  return output_ && level < LogLevel::off && level >= output_->filter.level(component);
}

void Logger::write(LogLevel level, std::string_view component, const std::string& message) const {
  if (!is_enabled(level, component)) return;
  const std::lock_guard lock(output_->mutex);
  output_->sink({level, component, message});
}

}  // namespace tessera::training
