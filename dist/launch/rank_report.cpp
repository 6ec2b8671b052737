#include "dist/launch/rank_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dist/comm/interface/errors.h"
#include "dist/launch/launch.h"
#include "tensor/uncaught_exception.h"

namespace tessera::dist {
namespace {

using std::chrono::milliseconds;

/// The exception that left the body of a virtual rank, which may be thrown again out of `main`.
struct RankException {
  std::exception_ptr exception;
  int rank = 0, size = 1;
};
std::mutex noted_mutex;
RankException noted;

std::string rank_text(int rank, int size) {
  return text("rank ", rank, " of ", size, ": ");
}

/// The rank whose exception ended this one.
std::optional<int> failed_peer(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const PeerFailedError& error) {
    return error.rank;
  } catch (...) {
    return {};
  }
}

/// The file by which the processes of one machine agree on the one that prints: in the folder that mpirun
/// makes for the job and removes after it. Empty where the launcher has none; then each rank prints.
std::string agreement_file() {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  const char* const job = std::getenv("PMIX_NAMESPACE");
  return folder && job ? text(folder, "/tessera-error-", job) : "";
}

/// Waits until the process that made `file` has printed its line. False where that was long ago: an earlier
/// program of the job did, as in `mpirun -n 4 sh -c "first; second"`.
bool wait_until_printed(const std::string& file, milliseconds timeout) {
  constexpr time_t recent = 20;  // s; the job's other ranks fail within a few
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  struct ::stat state {};
  while (::stat(file.c_str(), &state) != 0 || state.st_size == 0) {
    if (std::chrono::steady_clock::now() > deadline) return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return std::time(nullptr) - state.st_mtime < recent;
}

/// Prints the line unless another process of the job has printed one.
void print_once(const std::string& line) {
  const std::string file = agreement_file();
  const int made = file.empty() ? -1 : ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made < 0 && !file.empty() && errno == EEXIST && wait_until_printed(file, milliseconds(1000))) return;
  print_error_line(line);
  // Without it the others wait for a second.
  if (made >= 0 && ::write(made, line.data(), line.size()) < 0) return;
}

void print_rank_exception(const std::exception_ptr& exception, const std::string& line) {
  {
    const std::lock_guard lock(noted_mutex);
    if (noted.exception == exception) return print_error_line(rank_text(noted.rank, noted.size) + line);
  }
  LauncherJob job;
  try {
    job = launcher_job();
  } catch (const ConfigError&) {
    // A launcher that is not supported: `launch` has thrown this error.
  }
  if (job.size == 1) return print_error_line(line);
  const std::optional<int> peer = failed_peer(exception);
  if (!peer) return print_once(rank_text(job.rank, job.size) + line);
  // That rank prints, and ends with the status of its exception; then the launcher ends this one.
  std::this_thread::sleep_for(milliseconds(3000));
  const std::string prefix = text("rank ", *peer, " failed: ");
  print_once(rank_text(*peer, job.size) + (line.starts_with(prefix) ? line.substr(prefix.size()) : line));
}

int rank_status(const std::exception& error) {
  return dynamic_cast<const CommunicationError*>(&error) ? 5 : 0;
}

}  // namespace

bool install_rank_reporter() {
  set_uncaught_reporter({.status = rank_status, .print = print_rank_exception});
  return true;
}

void note_rank_of(const std::exception_ptr& exception, int rank, int size) {
  const std::lock_guard lock(noted_mutex);
  noted = {exception, rank, size};
}

}  // namespace tessera::dist
