#pragma once  // internal

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/function_ref.h"
#include "tensor/threads/wait_word.h"

namespace tessera {

/// The threads that compute with one calling thread: the caller is number 0, workers are 1, 2, ... Between
/// two calls of `run` workers spin for some microseconds, so that the next call of a busy program starts at
/// once, then sleep. A thread wakes up to four others, and waits for those: 64 threads are started in three
/// steps, and no word is changed by more than five. They sleep at once where the teams of this process have
/// more threads than it has processors: there, a spinning thread occupies the processor that the others wait
/// for.
///
/// With TESSERA_PIN_THREADS=1 each worker stays on a processor. The caller moves: threads that it starts
/// would get its processor alone.
///
/// Workers block signals, so handlers run in the program's own threads. The destructor joins them. In the
/// child of a fork they do not exist: a team from before the fork must be replaced there
/// (`is_from_before_fork`), and its destructor touches none of them.
class ThreadTeam {
 public:
  /// `threads` includes the caller. Throws Error where the system gives no more threads.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// The number of threads, the caller included.
  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Whether the process has forked since the team was made, and this is the child.
  bool is_from_before_fork() const;

  /// Calls range(i) in thread i for i = 0 .. ranges - 1 and returns when all have returned; `ranges` at most
  /// `threads()`. Rethrows the exception of the lowest range that failed. To be called by one thread at a
  /// time, not from inside a range.
  void run(int ranges, FunctionRef<void(int range)> range);

 private:
  struct Worker;
  struct Job;
  void start_below(int thread);
  void wait_below(int thread);
  WaitWord& unfinished_below(int thread);
  void work(int thread, Worker& self);
  void stop() noexcept;
  void leak_workers();

  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Job> job_;
  std::optional<int> place_;  ///< among the threads of the process's pinned teams
  uint32_t forks_before_;     ///< the number of forks that led to the process in which the team was made
};

}  // namespace tessera
