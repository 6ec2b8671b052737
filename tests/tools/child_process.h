#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

/// A process that runs a program of this build, or any other by its absolute path. The destructor kills it if
/// it still runs.
class ChildProcess {
 public:
  struct Options {
    std::string output;        ///< file for stdout and stderr; empty: discarded
    int64_t largest_file = 0;  ///< bytes after which a write fails, as on a full disk; 0: no limit
  };
  ChildProcess(const std::string& program, std::vector<std::string> arguments, const Options& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  bool is_running();
  /// Waits for its end: the exit status, or 128 and the signal that ended it.
  int wait();

 private:
  bool reap(int options);

  pid_t pid_ = -1;
  int status_ = -1;
};
