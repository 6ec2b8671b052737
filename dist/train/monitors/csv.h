#pragma once  // not in tessera.h

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

class AppendedFile;

/// A table of the metrics with a row for each call of `scalars`:
///
///     step,loss,lr
///     1,2.5,0.001
///
/// A name that appears for the first time adds a column at the end: the file is rewritten, atomically, with
/// empty fields in the earlier rows. A metric without a value in a row is an empty field. Names are quoted as
/// RFC 4180 has it; lines end with "\n" alone. Numbers are read back as the same doubles; those that are not
/// finite are nan, inf and -inf. There is no place in the table for the configuration, histograms and texts.
///
/// A resumed run drops the rows with a later step, and a last row that a killed process left unfinished.
class CsvMonitor : public Monitor {
 public:
  /// The file is opened by `begin`.
  explicit CsvMonitor(std::string path);
  ~CsvMonitor() override;

  /// Throws ConfigError when the file cannot be read or written; DataError with path and line for a file to
  /// continue that is no such table.
  void begin(const RunDescription& run) override;
  /// Throws ConfigError before `begin`, when the file cannot be written, and for a name that occurs twice, is
  /// empty or "step".
  void scalars(int64_t step, std::span<const MetricValue> values) override;
  /// Syncs the file.
  void flush() override;
  /// Syncs and closes the file.
  void end() override;
  /// Syncs and closes the file, without the mark of an end.
  void close() override;

 private:
  void add_columns(std::span<const MetricValue> values);
  void read_table(int64_t resume_step);

  std::string path_;
  std::unique_ptr<AppendedFile> file_;
  std::vector<std::string> columns_;     // after "step"
  std::map<std::string, size_t> index_;  // of a column
};

}  // namespace tessera::training
