#pragma once  // internal

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera::data {

/// A file to download, and how to verify it.
struct Download {
  /// http, https or file.
  std::string url;
  /// The path to write; missing folders are created.
  std::string to;
  /// Its length.
  int64_t bytes = 0;
  /// Its SHA-256 in 64 lower-case hexadecimal digits.
  std::string sha256;
  /// Time limits: for the connection, without a byte received, and in total.
  /// @{
  std::chrono::seconds connect_timeout{20}, stall_timeout{30}, timeout{300};
  /// @}
};

/// Downloads a file with libcurl to a temporary name beside `to`, and renames it when its length and hash are
/// right: at every moment `to` is unchanged or the complete new file. Throws DataError, leaving no file, when
/// the server cannot be reached or refuses, a time limit is exceeded, the content differs, or the folder
/// cannot be written.
void download(const Download& request);

}  // namespace tessera::data
