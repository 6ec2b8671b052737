#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace tessera::data {

/// A file to be fetched, and how to know it.
struct Download {
  /// http, https or file.
  std::string url;
  /// Where to put it; missing folders are made.
  std::filesystem::path to;
  /// Its length in bytes and its SHA-256 in hexadecimal digits.
  int64_t bytes = 0;
  std::string sha256;
  /// The longest waits: for a connection, without a byte arriving, and in all.
  std::chrono::seconds connect_timeout{20}, stall_timeout{30}, timeout{300};
};

/// Fetches a file with libcurl into a temporary name beside `to`, and renames it there once its length and
/// hash are right: `to` is at every moment what it was or the whole new file. Throws DataError, leaving
/// nothing behind, when the server cannot be reached or refuses, a wait is too long, the content is another,
/// or the folder cannot be written.
void download(const Download& wanted);

}  // namespace tessera::data
