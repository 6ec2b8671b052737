// TESSERA_PIN_THREADS is read once in a process, so CTest runs this file with it (tests/CMakeLists.txt).
#include <doctest/doctest.h>
#include <sched.h>

#include <set>
#include <vector>

#include "tensor/threads/cores.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

std::vector<int> processors_of_this_thread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  std::vector<int> processors;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &mask)) processors.push_back(p);
  return processors;
}

}  // namespace

TEST_CASE("threads: pinned workers stay on processors of their own, the caller where it may run") {
  if (!pins_threads()) {
    MESSAGE("skipped: TESSERA_PIN_THREADS is not 1; the CTest entry tensor/threads/pinned sets it");
    return;
  }
  const std::vector<int> allowed = processors_of_this_thread();
  const int threads = static_cast<int>(allowed.size());
  if (threads < 2) {
    MESSAGE("skipped: one processor has no second place");
    return;
  }
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  set_num_threads(threads);
  std::vector<std::vector<int>> masks(static_cast<size_t>(threads));
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) masks[static_cast<size_t>(i)] = processors_of_this_thread();
  });
  CHECK(masks[0] == allowed);
  std::set<int> places;
  for (size_t i = 1; i < masks.size(); ++i) {
    REQUIRE(masks[i].size() == 1);
    CHECK(masks[i] == std::vector<int>{allowed[i]});
    places.insert(masks[i][0]);
  }
  CHECK(std::ssize(places) == threads - 1);
}
