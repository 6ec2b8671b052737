#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "dist/comm/thread_ranks.h"
#include "dist/launch/world.h"
#include "tensor/memory/account.h"
#include "tensor/parallel.h"

/// Runs `body(world)` on every rank, each a thread with an account of its own; throws what the first rank
/// that failed threw.
inline void run_ranks(int ranks, const std::function<void(tessera::dist::World&)>& body) {
  using namespace tessera;
  dist::ThreadRanks run(ranks, {.timeout = std::chrono::seconds(60)});
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      dist::World world(run.take(rank), "localhost", rank, ranks, cpu());
      const AccountScope account(make_intrusive<MemoryAccount>());
      set_num_threads(1);
      try {
        body(world);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        run.fail(rank, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}
