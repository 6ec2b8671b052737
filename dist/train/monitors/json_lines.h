#pragma once  // not in tessera.h

#include <memory>
#include <string>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

class AppendedFile;

/// A file with one JSON object (RFC 8259) a line, as https://jsonlines.org has it:
///
///     {"event":"start","name":"...","tags":[...],"time":"...","configuration":{"lr":"0.001", ...}}
///     {"step":1,"loss":2.5,"lr":0.001}
///     {"event":"text","step":1,"name":"sample","text":"..."}
///     {"event":"end","step":1}
///
/// Numbers are read back as the same doubles. JSON has no NaN: a value that is not finite is the string
/// "NaN", "Infinity" or "-Infinity", which Python's float() and JavaScript's Number() read. Bytes that are
/// not UTF-8 are written as `\xff`. There are no lines for histograms.
///
/// A resumed run drops the lines with a later step, the line "end", and a last line that a killed process
/// left unfinished; it continues with a line {"event":"resume","step":..., ...} and the new configuration.
class JsonLinesMonitor : public Monitor {
 public:
  /// The file is opened by `begin`.
  explicit JsonLinesMonitor(std::string path);
  ~JsonLinesMonitor() override;

  /// Throws ConfigError when the file cannot be read or written, or when an option is there twice; DataError
  /// with path and line for a line of a file to continue that is no JSON object.
  void begin(const RunDescription& run) override;
  /// Throws ConfigError before `begin`, when the file cannot be written, and for a name that occurs twice, is
  /// empty, "step" or "event".
  void scalars(int64_t step, std::span<const MetricValue> values) override;
  /// Throws ConfigError before `begin`, and when the file cannot be written.
  void text(int64_t step, const std::string& name, const std::string& text) override;
  /// Syncs the file.
  void flush() override;
  /// Writes the last line, syncs and closes the file.
  void end() override;
  /// Syncs and closes the file, without the mark of an end.
  void close() override;

 private:
  void write(const std::string& line);

  std::string path_;
  std::unique_ptr<AppendedFile> file_;
  int64_t last_step_ = 0;
};

}  // namespace tessera::training
