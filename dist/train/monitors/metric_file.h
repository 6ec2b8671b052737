#pragma once  // internal

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dist/train/monitors/monitor.h"

namespace tessera::training {

/// A file that grows at its end. Every write goes to the system at once, so that a reader sees what was
/// reported, and a killed process leaves at most its last write unfinished.
class AppendedFile {
 public:
  /// Opens the file, and makes it where there is none; `is_new` empties it. Every member throws ConfigError
  /// naming the file and the system's reason.
  AppendedFile(std::string path, bool is_new);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Writes at the end of the file.
  void append(std::string_view bytes);
  /// Waits until the file is on the disk.
  void sync();

 private:
  void require_done(bool is_done, const char* action) const;

  std::string path_;
  int descriptor_ = -1;
};

/// The content of a file, "" where there is none. Throws ConfigError when it cannot be read.
std::string read_if_present(const std::string& path);
/// Replaces a file atomically. Throws ConfigError naming the file and the system's reason.
void replace_file(const std::string& path, std::string_view content);

/// The shortest decimal text that is read back as the same double; "nan", "inf" or "-inf".
std::string number_text(double value);
/// The bytes if they are UTF-8, else with every byte outside printable ASCII as `\xff`.
std::string utf8_text(const std::string& bytes);
/// The time in seconds since 1970, UTC.
double seconds_since_1970();
/// The time now as ISO 8601 has it, in UTC: "2025-01-31T23:59:59Z".
std::string utc_time();

/// Throws ConfigError naming `where` and the name, unless names are neither empty nor "step" and occur once.
/// @{
void require_names(std::span<const MetricValue> values, const std::string& where);
void require_names(std::span<const std::pair<std::string, std::string>> configuration,
                   const std::string& where);
/// @}

}  // namespace tessera::training
