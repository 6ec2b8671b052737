#include "dist/comm/thread_ranks.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <thread>

#include "conformance.h"
#include "tensor/parallel.h"

namespace {

using namespace tessera;
using namespace tessera::dist;

/// Runs `body` on `ranks` threads; what each threw, or "".
std::vector<std::string> run(int ranks, const std::function<void(Communicator&)>& body,
                             const ThreadRankOptions& options = {.timeout = std::chrono::seconds(20)}) {
  ThreadRanks world(ranks, options);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const std::shared_ptr<Communicator> communicator = world.take(r);
      set_num_threads(1);
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        errors[r] = error.what();
        world.fail(r, error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace

TEST_CASE("ranks as threads: every collective, dtype, reduction and size") {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const auto& [name, body] : conformance::cases()) {
      CAPTURE(ranks);
      CAPTURE(std::string(name));
      for (const std::string& error : run(ranks, body)) CHECK(error == "");
    }
}
