#include "dist/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "tensor/error.h"
#include "tensor/io/file.h"

namespace tessera::dist {
namespace {

/// The content of the file: "process 1234 on host name". The holder writes it just after locking: hence the
/// retries.
std::string read_holder(int descriptor) {
  char bytes[512];
  ssize_t n = 0;
  for (int i = 0; i < 20 && n <= 0; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    n = ::pread(descriptor, bytes, sizeof bytes, 0);
  }
  return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "a process that has not written its name";
}

std::string process_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return text("process ", ::getpid(), " on host ", host);
}

/// Whether the open file still has this path: the previous holder may have removed it.
bool is_file_at(int descriptor, const std::string& path) {
  struct stat held {
  }, named{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const std::string& root) : path_(root + "/" + run_lock_name) {
  for (int attempt = 0; !try_lock(root, attempt); ++attempt) {
  }
  const std::string name = process_name();
  // The name is used in other runs' messages only: a failure to write it is ignored.
  if (::ftruncate(descriptor_, 0) == 0) std::ignore = ::pwrite(descriptor_, name.data(), name.size(), 0);
}

/// Whether the lock was taken; false where the file or the folder was removed in between.
bool RunLock::try_lock(const std::string& root, int attempt) {
  std::error_code error, ignored;
  created_folder_ = std::filesystem::create_directories(root, error) || created_folder_;
  if (error == std::errc::file_exists && attempt < 1000) {
    // Another run's folder, which that run removed before create_directories looked at what is there.
    const auto found = std::filesystem::symlink_status(root, ignored);
    if (!std::filesystem::exists(found) || std::filesystem::is_directory(found)) return false;
  }
  require<CheckpointError>(!error, root, ": cannot make the folder: ", error.message());
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0 && errno == ENOENT) return false;
  require<CheckpointError>(descriptor_ >= 0, path_,
                           ": cannot open the run's lock: ", io::system_message(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const std::string holder = read_holder(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    throw ConfigError(text(root, ": another run saves into this folder: ", holder,
                           " holds it: wait for its end, or give another folder"));
  }
  if (is_file_at(descriptor_, path_)) return true;
  ::close(std::exchange(descriptor_, -1));
  return false;
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());
  if (created_folder_) ::rmdir(io::parent_directory(path_).c_str());  // fails unless it is empty
  ::close(descriptor_);
}

}  // namespace tessera::dist
