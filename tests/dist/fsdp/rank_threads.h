#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "dist/comm/thread_ranks.h"
#include "dist/launch/world.h"

/// Runs `body` once per rank, each in a thread of its own, and returns what each returned. Throws what the
/// first one threw.
template <class Result>
std::vector<Result> on_ranks(int ranks, const std::function<Result(tessera::dist::World&)>& body) {
  using namespace tessera;
  dist::ThreadRanks world_of_threads(ranks, {.timeout = std::chrono::seconds(20)});
  std::vector<Result> results(static_cast<size_t>(ranks));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        dist::World world(world_of_threads.take(rank), "here", rank, ranks, cpu());
        results[static_cast<size_t>(rank)] = body(world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
        world_of_threads.fail(rank, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}
