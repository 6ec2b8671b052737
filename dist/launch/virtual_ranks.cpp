#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "dist/comm/node/thread_ranks.h"
#include "dist/launch/rank_report.h"
#include "dist/launch/ranks.h"
#include "tensor/memory/account.h"
#include "tensor/profile/profiler.h"
#include "tensor/threads/parallel.h"

namespace tessera::dist {
namespace {

/// The first exception of all ranks.
class FirstFailure {
 public:
  void add(std::exception_ptr failure, int rank) {
    const std::lock_guard lock(mutex_);
    if (first_) return;
    first_ = std::move(failure);
    rank_ = rank;
  }
  /// Throws it, if there is one: out of `main` it is reported with its rank.
  void rethrow(int ranks) const {
    if (!first_) return;
    if (ranks > 1) note_rank_of(first_, rank_, ranks);
    std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  int rank_ = 0;
};

/// Runs one rank in its own thread. Its communicators are destroyed before this returns, and after a failure
/// is reported to the others: destroying them waits for the other ranks.
int run_rank(const std::function<int(World&)>& body, const LaunchOptions& options, ThreadRanks& ranks,
             int rank, FirstFailure& failure) {
  const AccountScope account(make_intrusive<MemoryAccount>());
  const ProfilerRankScope row(rank);
  World world(ranks.take(rank), host_name(), rank, options.virtual_ranks, options.device);
  const auto fail = [&](const char* message) {
    failure.add(std::current_exception(), rank);
    ranks.fail(rank, message);
    return 1;
  };
  try {
    return body(world);
  } catch (const std::exception& error) {
    return fail(error.what());
  } catch (...) {
    return fail("an exception that is no std::exception");
  }
}

/// Gives the calling thread its number of computing threads back.
struct CallerThreads {
  ~CallerThreads() { set_num_threads(before); }
  const int before = num_threads();
};

}  // namespace

int run_virtual_ranks(const std::function<int(World&)>& body, const LaunchOptions& options) {
  const int ranks = options.virtual_ranks;
  ThreadRanks world(ranks, {.timeout = options.timeout});
  FirstFailure failure;
  std::vector<int> results(static_cast<size_t>(ranks));
  if (ranks == 1) {
    const CallerThreads restored;
    if (options.threads > 0) set_num_threads(options.threads);
    results[0] = run_rank(body, options, world, 0, failure);
  } else {
    const int share = options.threads > 0 ? options.threads : std::max(1, num_threads() / ranks);
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        set_num_threads(share);
        results[static_cast<size_t>(r)] = run_rank(body, options, world, r, failure);
      });
  }
  failure.rethrow(ranks);
  return results[0];
}

}  // namespace tessera::dist
