#include "dist/comm/process/process_place.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "tensor/error.h"

namespace tessera::dist {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t hash_of(const std::string& content) {
  return XXH3_64bits(content.data(), content.size());
}

uint64_t kernel_now() {
  const std::string boot_id = content_of("/proc/sys/kernel/random/boot_id");
  if (!boot_id.empty()) return hash_of(boot_id);
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return hash_of(name);
}

uint64_t pid_namespace_now() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/// Field 22 of /proc/PID/stat; 0 where there is none. Field 2, in parentheses, may contain any characters.
uint64_t start_of(int64_t pid) {
  const std::string status = content_of(text("/proc/", pid, "/stat"));
  const size_t name_end = status.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(status.substr(name_end + 1));
  std::string field;
  for (int number = 3; number < 22; ++number) fields >> field;
  uint64_t start = 0;
  fields >> start;
  return start;
}

}  // namespace

ProcessPlace this_process() {
  static const uint64_t kernel = kernel_now();
  const int64_t pid = ::getpid();
  return {.kernel = kernel, .pid_namespace = pid_namespace_now(), .pid = pid, .start = start_of(pid)};
}

bool is_running(const ProcessPlace& place) {
  return place.pid > 0 && place.shares_pids_with(this_process()) && start_of(place.pid) == place.start;
}

int open_process(const ProcessPlace& place) {
  if (!is_running(place)) return -1;
  const int process = static_cast<int>(syscall(SYS_pidfd_open, place.pid, 0));
  if (process < 0 || is_running(place)) return process;
  ::close(process);  // of a later process that took the pid in between
  return -1;
}

}  // namespace tessera::dist
