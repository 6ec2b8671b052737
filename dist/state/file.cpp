#include "dist/state/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

// Linux transfers at most 2 GiB a call; smaller pieces also keep a signal's interruption cheap.
constexpr int64_t largest_transfer = int64_t{1} << 26;

XXH3_state_t* state_of(void* hash) {
  return static_cast<XXH3_state_t*>(hash);
}

}  // namespace

std::string system_message(int error) {
  return std::generic_category().message(error);
}

std::string parent_directory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require<CheckpointError>(descriptor >= 0, path, ": cannot open the folder: ", system_message(errno));
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some file systems know no fsync of a folder.
  require<CheckpointError>(result == 0 || error == EINVAL || error == ENOTSUP, path,
                           ": cannot sync the folder: ", system_message(error));
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  require<CheckpointError>(descriptor_ >= 0, path_, ": cannot open: ", system_message(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) ::close(std::exchange(descriptor_, -1));
  require<CheckpointError>(regular, path_, ": expected a regular file");
  size_ = status.st_size;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

void InputFile::read(int64_t offset, void* out, int64_t size) const {
  char* next = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n =
        ::pread(descriptor_, next, static_cast<size_t>(std::min(size, largest_transfer)), offset);
    if (n < 0 && errno == EINTR) continue;
    require<CheckpointError>(n >= 0, path_, ": cannot read at byte ", offset, ": ", system_message(errno));
    require<CheckpointError>(n > 0, path_, ": expected ", size, " more bytes at byte ", offset,
                             ", the file ends there");
    next += n;
    offset += n;
    size -= n;
  }
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), hash_(XXH3_createState()) {
  static std::atomic<int> made{0};
  temporary_ = text(path_, temporary_mark, ::getpid(), "-", made.fetch_add(1));
  XXH3_64bits_reset(state_of(hash_));
  // A file of that name is a dead process's: this one has not used the name yet.
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    XXH3_freeState(state_of(hash_));
    throw CheckpointError(text(path_, ": cannot create a file in this folder: ", system_message(error)));
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
  XXH3_freeState(state_of(hash_));
}

void OutputFile::fail(const char* action) const {
  throw CheckpointError(
      text(path_, ": cannot ", action, " after ", size_, " bytes: ", system_message(errno)));
}

void OutputFile::append(const void* data, int64_t size) {
  XXH3_64bits_update(state_of(hash_), data, static_cast<size_t>(size));
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(descriptor_, next, static_cast<size_t>(std::min(size, largest_transfer)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write");
    next += n;
    size_ += n;
    size -= n;
  }
}

uint64_t OutputFile::xxh3() const {
  return XXH3_64bits_digest(state_of(hash_));
}

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail("sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename the finished file");
  ::close(std::exchange(descriptor_, -1));
  sync_directory(parent_directory(path_));
}

std::string read_text_file(const std::string& path, int64_t limit) {
  const InputFile file(path);
  require<CheckpointError>(file.size() <= limit, path, ": expected at most ", limit, " bytes, got ",
                           file.size());
  std::string content(static_cast<size_t>(file.size()), '\0');
  file.read(0, content.data(), file.size());
  return content;
}

uint64_t write_text_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.append(text.data(), static_cast<int64_t>(text.size()));
  file.commit();
  return file.xxh3();
}

}  // namespace tessera::dist
