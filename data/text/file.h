#pragma once  // internal

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace tessera::data {

/// The content of a file. `what` describes the file in error messages ("text file", "dataset"). Throws
/// DataError, with the path, when the file is missing, is a directory or not a regular file, may not be read,
/// or fails while being read. An empty file gives an empty string.
std::string read_file(const std::filesystem::path& path, std::string_view what = "file");

/// A file mapped read-only into memory: pages are read at first access, and shared between processes.
/// The file must not shrink while it is mapped.
class MappedFile {
 public:
  /// Throws DataError as `read_file` does.
  explicit MappedFile(const std::filesystem::path& path, std::string_view what = "file");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// The first byte; null for an empty file.
  const std::byte* data() const { return data_; }
  /// Length in bytes.
  size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tessera::data
