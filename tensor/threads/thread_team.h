#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/function_ref.h"

namespace tessera {

/// The threads that compute with one calling thread: the caller is number 0, workers are 1, 2, ... Between
/// two runs workers spin for some microseconds, so that the next run of a busy program starts at once, then
/// sleep. They only sleep where the teams of this process have more threads than it has processors: a thread
/// that spins there holds the processor that the others wait for.
///
/// Workers block signals, so handlers run in the program's own threads. They are joined when the team goes.
/// In the child of a fork they do not exist: a team from before the fork must be replaced there
/// (`lost_to_fork`), and its destructor touches none of them.
class ThreadTeam {
 public:
  /// `threads` counts the caller. Throws Error where the system gives no more threads.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  bool lost_to_fork() const;

  /// Calls part(i) in thread i for i = 0 .. parts - 1 and returns when all have returned; `parts` at most
  /// `threads()`. Rethrows what the lowest of the failed parts threw. To be called by one thread at a time,
  /// not from inside a part.
  void run(int parts, FunctionRef<void(int part)> part);

 private:
  struct Worker;
  struct Run;
  void stop() noexcept;
  void leave_behind();

  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Run> run_;
  uint32_t born_;  ///< forks that this process and its ancestors had done when the team was made
};

}  // namespace tessera
