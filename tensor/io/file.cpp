#include "tensor/io/file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>

#include "tensor/error.h"
#include "tensor/function_ref.h"

namespace tessera::io {
namespace {

// Linux transfers at most 2 GiB a call; smaller chunks also make an interruption by a signal cheap.
constexpr int64_t max_transfer = int64_t{1} << 26;

// Random names that are tried while the one before exists already.
constexpr int max_attempts = 16;

XXH3_state_t* state_of(void* hash) {
  return static_cast<XXH3_state_t*>(hash);
}

std::string random_temporary_name(const std::string& path) {
  uint64_t random = 0;
  require<CheckpointError>(::getrandom(&random, sizeof random, 0) == sizeof random, path,
                           ": cannot draw a temporary name: ", system_message(errno));
  constexpr const char* digits = "0123456789abcdef";
  std::string name = path + temporary_mark;
  for (int i = 0; i < 16; ++i, random >>= 4) name += digits[random & 15];
  return name;
}

/// Calls `create` with random names until it succeeds; returns that name, or "" and leaves errno.
std::string create_with_random_name(const std::string& path, FunctionRef<bool(const std::string&)> create) {
  for (int i = 0; i < max_attempts; ++i) {
    std::string name = random_temporary_name(path);
    if (create(name)) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

/// The process's umask. Linux shows it in /proc; umask() reads it by a change, which other threads would see.
mode_t current_umask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Umask:", 0) == 0) return static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask;
}

/// Opens without waiting for the writer of a FIFO. Waits for a lease that another program (a file server) has
/// on a regular file.
int open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor >= 0 || errno != EWOULDBLOCK || ::stat(path.c_str(), &status) != 0) return descriptor;
  errno = EWOULDBLOCK;
  return S_ISREG(status.st_mode) ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
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
  // Some file systems have no fsync of a folder.
  require<CheckpointError>(result == 0 || error == EINVAL || error == ENOTSUP, path,
                           ": cannot sync the folder: ", system_message(error));
}

std::string make_temporary_folder(const std::string& path) {
  const std::string made =
      create_with_random_name(path, [](const std::string& name) { return ::mkdir(name.c_str(), 0700) == 0; });
  require<CheckpointError>(!made.empty(), path, ": cannot make the folder: ", system_message(errno));
  return made;
}

void set_published_mode(const std::string& folder) {
  require<CheckpointError>(::chmod(folder.c_str(), 0777 & ~current_umask()) == 0, folder,
                           ": cannot set the permissions: ", system_message(errno));
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open_to_read(path_);
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
    const ssize_t n = ::pread(descriptor_, next, static_cast<size_t>(std::min(size, max_transfer)), offset);
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
  XXH3_64bits_reset(state_of(hash_));
  temporary_ = create_with_random_name(path_, [&](const std::string& name) {
    descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return descriptor_ >= 0;
  });
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
    const ssize_t n = ::write(descriptor_, next, static_cast<size_t>(std::min(size, max_transfer)));
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
  if (::fchmod(descriptor_, 0666 & ~current_umask()) != 0) fail("set the permissions");
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

}  // namespace tessera::io
