#pragma once  // internal

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/interface/communicator.h"

namespace tessera::dist {

struct ThreadRankOptions {
  /// How long a rank may do nothing while others wait for it.
  std::chrono::milliseconds timeout{300'000};
};

/// The world of ranks that are threads of this process. Made by one thread, which then passes each rank's
/// communicator to the thread of that rank; that thread also destroys it.
class ThreadRanks {
 public:
  /// Throws ConfigError below 1 rank.
  explicit ThreadRanks(int ranks, const ThreadRankOptions& options = {});
  ~ThreadRanks();

  /// The communicator of all ranks, as `rank` sees it. It is moved out: a second call gives null.
  std::shared_ptr<Communicator> take(int rank) { return std::move(communicators_[rank]); }
  /// Records that `rank` ended by an exception: every call of the others ends with PeerFailedError and this
  /// message, unless the run had failed before. Called by any thread.
  void fail(int rank, const std::string& message);

 private:
  class Memory;
  std::shared_ptr<Memory> memory_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

/// The communicators of all `ranks`, without a ThreadRanks to keep.
std::vector<std::shared_ptr<Communicator>> make_thread_communicators(int ranks,
                                                                     const ThreadRankOptions& options = {});

}  // namespace tessera::dist
