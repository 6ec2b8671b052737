#include "tests/tools/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace {

/// Runs in the child, with only calls that are allowed between fork and exec.
[[noreturn]] void become(const char* program, char* const* argv, const char* output, int64_t largest_file) {
  const int file = ::open(output, O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  if (largest_file > 0) {
    const rlimit limit{static_cast<rlim_t>(largest_file), static_cast<rlim_t>(largest_file)};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ::execv(program, argv);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const std::string& program, std::vector<std::string> arguments,
                           const Options& options) {
  const std::string path =
      program.front() == '/' ? program : std::string(TESSERA_PROGRAM_DIR) + "/" + program;
  const std::string output = options.output.empty() ? "/dev/null" : options.output;
  std::vector<char*> argv{const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) become(path.c_str(), argv.data(), output.c_str(), options.largest_file);
}

ChildProcess::~ChildProcess() {
  if (!is_running()) return;
  send(SIGKILL);
  wait();
}

void ChildProcess::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

bool ChildProcess::reap(int options) {
  if (pid_ < 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, options) != pid_) return false;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  pid_ = -1;
  return true;
}

bool ChildProcess::is_running() {
  return !reap(WNOHANG);
}

int ChildProcess::wait() {
  while (!reap(0)) {
  }
  return status_;
}
