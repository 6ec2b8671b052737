#include "data/text/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "tensor/error.h"

namespace tessera::data {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path, int error) {
  const std::string reason = error == ENOENT   ? "does not exist"
                             : error == EACCES ? "may not be read (permission denied)"
                                               : std::generic_category().message(error);
  throw DataError(text(what, " ", path.string(), ": ", reason));
}

/// An open regular file, and its size.
class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, std::string_view what)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) fail(what, path, errno);
    struct stat status {};
    const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
    const char* wrong = S_ISDIR(status.st_mode)    ? "is a directory, expected a file"
                        : !S_ISREG(status.st_mode) ? "is not a regular file"
                                                   : nullptr;
    if (error == 0 && wrong == nullptr) {
      size_ = static_cast<size_t>(status.st_size);
      return;
    }
    ::close(descriptor_);
    if (error != 0) fail(what, path, error);
    throw DataError(text(what, " ", path.string(), ": ", wrong));
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  size_t size() const { return size_; }

 private:
  int descriptor_;
  size_t size_ = 0;
};

}  // namespace

std::string read_file(const std::filesystem::path& path, std::string_view what) {
  const OpenFile file(path, what);
  std::string content(file.size(), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(file.descriptor(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(what, path, errno);
    if (n == 0) break;  // the file was truncated during reading
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view what) {
  const OpenFile file(path, what);
  size_ = file.size();
  if (size_ == 0) return;  // mmap refuses an empty mapping
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) fail(what, path, errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tessera::data
