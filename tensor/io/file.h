#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::io {

/// A regular file opened for reading at any position. Positions are read, not mapped: a file that shrinks
/// while it is read is then an error with a name, not a signal. Anything but a regular file (a FIFO, a
/// device, a folder) is an error at once, without a wait for its data.
class InputFile {
 public:
  /// Throws CheckpointError naming the file and the system's reason.
  explicit InputFile(std::string path);
  ~InputFile();
  /// Takes the open file over; `other` can only be destroyed then.
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  /// The path as given.
  const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  int64_t size() const { return size_; }
  /// Fills `out` with the `size` bytes at `offset`. Throws CheckpointError when they cannot be read.
  void read(int64_t offset, void* out, int64_t size) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

/// Marks the temporary name of a file or folder that is being written: `NAME.tmp-...`, where random
/// characters follow. A killed process leaves such names behind. The file or folder is created new (O_EXCL),
/// never through a link, for its owner alone; when it is published it gets the permissions that the umask
/// leaves.
inline constexpr const char* temporary_mark = ".tmp-";

/// Makes an empty folder beside `path`, named with the mark; returns its name. Throws CheckpointError.
std::string make_temporary_folder(const std::string& path);
/// Gives a folder that is about to be published the permissions that the umask leaves. Throws
/// CheckpointError.
void set_published_mode(const std::string& folder);

/// A file that appears under its name only when it is complete: it is written in the same folder under a
/// temporary name, synced and renamed over the old file, and the folder is synced. Unless `commit` returns,
/// the old file stays, and the destructor removes the temporary one. A link under the name is replaced, not
/// followed.
class OutputFile {
 public:
  /// Throws CheckpointError naming the file and the system's reason, as every member does.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// The name under which the file appears, as given.
  const std::string& path() const { return path_; }
  /// Writes `size` bytes after those written so far.
  void append(const void* data, int64_t size);
  /// The number of bytes written so far.
  int64_t size() const { return size_; }
  /// XXH3 (64 bits, seed 0) of the bytes so far.
  uint64_t xxh3() const;
  /// Gives the file the permissions that the umask leaves, syncs and renames it, and syncs the folder. To be
  /// called once, after the last `append`.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  void* hash_;
};

/// The content of a small text file. Throws CheckpointError when it has more than `limit` bytes.
std::string read_text_file(const std::string& path, int64_t limit);
/// Replaces a small text file as OutputFile does; returns the XXH3 of the text.
uint64_t write_text_file(const std::string& path, std::string_view text);

/// Makes renames inside the folder survive a power failure. Throws CheckpointError.
void sync_directory(const std::string& path);
/// The folder that holds `path`: "." for a bare name.
std::string parent_directory(const std::string& path);
/// The system's message for an errno.
std::string system_message(int error);

}  // namespace tessera::io
