#include "tools/cuda_sim/machine/running/host_threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using tessera::cuda_sim::HostThreads;

TEST_CASE("host threads: every launch is carried out by as many threads as it asks for") {
  HostThreads threads;
  for (const uint64_t count : {1, 3, 2, 4, 1, 2}) {
    std::atomic<uint64_t> calls = 0, together = 0;
    threads.run(count, [&] {
      ++calls;
      while (calls < count) std::this_thread::yield();  // ends only where all of them run at once
      ++together;
    });
    CHECK(together == count);
  }
}

TEST_CASE("host threads: launches of several threads take turns") {
  HostThreads threads;
  std::atomic<int> inside = 0, launches = 0;
  std::atomic<bool> overlaps = false;
  const auto launch = [&] {
    for (int i = 0; i < 50; ++i) {
      std::atomic<int> calls = 0;
      threads.run(2, [&] {
        if (++inside > 2) overlaps = true;
        ++calls;
        while (calls < 2) std::this_thread::yield();
        --inside;
      });
      ++launches;
    }
  };
  std::thread other(launch);
  launch();
  other.join();
  CHECK(launches == 100);
  CHECK(!overlaps);
}
