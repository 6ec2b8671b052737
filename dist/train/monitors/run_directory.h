#pragma once  // not in tessera.h

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

/// Where and when a run began.
struct RunMetadata {
  std::string name = {};                       ///< of the run
  std::vector<std::string> tags = {};          ///< words by which runs are found
  std::string start_time = {};                 ///< ISO 8601, UTC: "2025-01-31T23:59:59Z"
  std::string host = {};                       ///< the machine's name
  std::string processor = {};                  ///< its model, "unknown" where the system does not say
  std::string version = {};                    ///< of Tessera
  std::vector<std::string> command_line = {};  ///< the program and its arguments; may be empty
  std::string project = {};                    ///< of the run; "" where there is none
  /// Equal in all fields.
  friend bool operator==(const RunMetadata&, const RunMetadata&) = default;
};

/// The content of a run's folder: what `read_run_directory` returns.
struct RunRecord {
  /// Names and values of the options, in their order.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  RunMetadata metadata = {};  ///< of the run's start
  /// Equal in all fields.
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// The files of a run's folder.
/// @{
inline constexpr const char* configuration_file_name = "configuration.json";
inline constexpr const char* metadata_file_name = "metadata.json";
/// @}

/// The record of a run that begins now, on this machine. `command_line`: the arguments of `main`.
RunRecord describe_run(const RunDescription& run, const std::vector<std::string>& command_line = {});

/// Writes `configuration.json` and `metadata.json` into `folder`, which is made where it is missing. Each
/// file appears complete or not at all (io::OutputFile). Bytes that are not UTF-8 are written as `\xff`.
/// Throws ConfigError naming the path when one cannot be written, or when an option is there twice.
void write_run_directory(const std::string& folder, const RunRecord& record);

/// The inverse. Throws DataError, "PATH:LINE: ...", for a file that is missing or no JSON, and for a field
/// that is missing, unknown or of another type. A folder without a project has "".
RunRecord read_run_directory(const std::string& folder);

/// The folder's files as a monitor: `begin` writes them, and there is nothing else to write. A run that
/// continues leaves the record of its start, where there is one.
class RunDirectoryMonitor : public Monitor {
 public:
  /// `command_line`: the arguments of `main`.
  explicit RunDirectoryMonitor(std::string folder, std::vector<std::string> command_line = {})
      : folder_(std::move(folder)), command_line_(std::move(command_line)) {}
  /// Throws as `write_run_directory`.
  void begin(const RunDescription& run) override;
  void scalars(int64_t step, std::span<const MetricValue> values) override;

 private:
  std::string folder_;
  std::vector<std::string> command_line_;
};

}  // namespace tessera::training
