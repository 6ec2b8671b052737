// parallel_for and its threads. A loop that loses a wake-up hangs until the test's time limit.

#include "tensor/threads/parallel.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/memory/cpu_allocator.h"
#include "tensor/tensor.h"
#include "tensor/threads/thread_team.h"

namespace {
bool is_child = false;  // of a fork
}

#if defined(__SANITIZE_ADDRESS__)
// Turns the leak checker off in a child: it would report what the C library kept for the parent's threads.
extern "C" int __lsan_is_turned_off() {
  return is_child;
}
#endif

namespace tessera {
namespace {

/// Sets the number of computing threads while it lives.
struct Threads {
  int before = num_threads();
  explicit Threads(int threads) { set_num_threads(threads); }
  ~Threads() { set_num_threads(before); }
};

using Range = std::pair<int64_t, int64_t>;

/// The parts of a loop, in order.
std::vector<Range> parts_of(int64_t n, int64_t grain) {
  std::vector<Range> parts(64);
  std::atomic<int> count{0};
  parallel_for(n, grain, [&](int64_t begin, int64_t end) { parts[count++] = {begin, end}; });
  parts.resize(count);
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// A sum with rounding errors that depend on where the range is cut.
float sum_of_parts(int64_t n) {
  float sums[64] = {};
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    float sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += 1.0f / static_cast<float>(i + 1);
    sums[begin * 64 / n] = sum;
  });
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

/// Runs `body` in a child process and returns its exit status; -1 when a signal ended it.
template <class Body>
int exit_status_of_child(Body body) {
  std::cout.flush();  // else the child would write the same text again
  const pid_t child = fork();
  if (child == 0) {
    is_child = true;
    alarm(60);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("parallel_for: contiguous parts, as many as the grain allows, cut at n * part / parts") {
  const Threads threads(4);
  CHECK(parts_of(0, 1).empty());
  CHECK(parts_of(10, 1) == std::vector<Range>{{0, 2}, {2, 5}, {5, 7}, {7, 10}});
  CHECK(parts_of(10, 4) == std::vector<Range>{{0, 5}, {5, 10}});
  CHECK(parts_of(10, 6) == std::vector<Range>{{0, 10}});
  CHECK(parts_of(3, 1) == std::vector<Range>{{0, 1}, {1, 2}, {2, 3}});
  set_num_threads(1);
  CHECK(parts_of(10, 1) == std::vector<Range>{{0, 10}});
}

TEST_CASE("parallel_for: the same bits at the same number of threads, loop after loop") {
  for (int count : {1, 2, 3, 7}) {
    const Threads threads(count);
    const float first = sum_of_parts(100001);
    for (int i = 0; i < 200; ++i) CHECK(sum_of_parts(100001) == first);
  }
}

TEST_CASE("parallel_for: flushes denormals in every thread") {
  const Threads threads(3);
  std::atomic<int> flushed{0};
  parallel_for(3, 1, [&](int64_t, int64_t) {
    volatile float tiny = 1e-30f;
    if (tiny * 1e-15f == 0.0f) ++flushed;
  });
  CHECK(flushed == 3);
}

TEST_CASE("parallel_for: a nested loop is not cut, and runs in the thread that calls it") {
  const Threads threads(3);
  std::atomic<int> inner{0}, uncut{0};
  parallel_for(3, 1, [&](int64_t, int64_t) {
    const auto caller = std::this_thread::get_id();
    CHECK(num_threads() == 3);
    parallel_for(100, 1, [&](int64_t begin, int64_t end) {
      ++inner;
      if (begin == 0 && end == 100 && std::this_thread::get_id() == caller) ++uncut;
    });
  });
  CHECK(inner == 3);
  CHECK(uncut == 3);
}

TEST_CASE("parallel_for: rethrows the first failed part's exception, and runs the next loop") {
  const Threads threads(4);
  const auto fail_from = [](int64_t first) {
    parallel_for(4, 1, [&](int64_t begin, int64_t) {
      if (begin >= first) throw ValueError(text("part ", begin));
    });
  };
  for (int i = 0; i < 50; ++i) {
    CHECK_THROWS_WITH_AS(fail_from(0), "part 0", ValueError);
    CHECK_THROWS_WITH_AS(fail_from(2), "part 2", ValueError);
    CHECK_NOTHROW(fail_from(4));
  }
  std::atomic<int> parts{0};
  parallel_for(4, 1, [&](int64_t, int64_t) { ++parts; });
  CHECK(parts == 4);
}

TEST_CASE("parallel_for: workers allocate in the caller's account and category") {
  const Threads threads(3);
  for (MemoryCategory category : {MemoryCategory::gradient, MemoryCategory::parameter}) {
    const auto account = make_intrusive<MemoryAccount>();
    const AccountScope account_scope(account);
    const CategoryScope category_scope(category);
    parallel_for(3, 1, [](int64_t, int64_t) { Tensor::empty({1000}, f32); });
    CHECK(account->count(category).allocations == 3);
    CHECK(account->total().allocations == 3);
    CHECK(account->total().current == 0);
  }
}

TEST_CASE("parallel_for: many threads, each with a team of its own and its own number of threads") {
  const Threads threads(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 6; ++rank)
    ranks.emplace_back([rank, &wrong] {
      const auto account = make_intrusive<MemoryAccount>();
      const AccountScope scope(account);
      set_num_threads(1 + rank % 4);
      for (int i = 0; i < 300; ++i) {
        std::atomic<int64_t> sum{0}, parts{0};
        parallel_for(100, 1, [&](int64_t begin, int64_t end) {
          ++parts;
          Tensor::empty({begin + 1}, f32);
          for (int64_t k = begin; k < end; ++k) sum += k;
        });
        if (sum != 4950 || parts != 1 + rank % 4) ++wrong;
      }
      if (account->total().allocations != 300 * (1 + rank % 4)) ++wrong;
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(wrong == 0);
  CHECK(num_threads() == 2);
}

TEST_CASE("parallel_for: more threads than cores, and changes of their number between loops") {
  const Threads threads(8);
  for (int i = 0; i < 2000; ++i) {
    std::atomic<int> parts{0};
    parallel_for(8, 1, [&](int64_t, int64_t) { ++parts; });
    REQUIRE(parts == 8);
  }
  for (int i = 0; i < 60; ++i) {
    set_num_threads(1 + i % 5);
    std::atomic<int> parts{0};
    parallel_for(100, 1, [&](int64_t, int64_t) { ++parts; });
    REQUIRE(parts == 1 + i % 5);
  }
}

TEST_CASE("thread team: part i always runs in the same thread, part 0 in the caller") {
  ThreadTeam team(3);
  std::thread::id first[3], now[3];
  team.run(3, [&](int part) { first[part] = std::this_thread::get_id(); });
  CHECK(first[0] == std::this_thread::get_id());
  CHECK(std::set<std::thread::id>(first, first + 3).size() == 3);
  for (int i = 0; i < 100; ++i) {
    team.run(1 + i % 3, [&](int part) { now[part] = std::this_thread::get_id(); });
    for (int part = 0; part < 1 + i % 3; ++part) REQUIRE(now[part] == first[part]);
  }
}

TEST_CASE("thread team: any number of ranges, each once, and the exception of the lowest that failed") {
  for (const int threads : {1, 2, 4, 5, 6, 20, 21, 22, 70}) {
    ThreadTeam team(threads);
    for (int ranges = 1; ranges <= threads; ranges += 1 + ranges / 7) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(threads));
      team.run(ranges, [&](int range) { ++runs[static_cast<size_t>(range)]; });
      for (int i = 0; i < threads; ++i) REQUIRE(runs[static_cast<size_t>(i)] == (i < ranges ? 1 : 0));
      // Of a leaf of the tree and of a thread above it.
      const int failing = ranges / 2;
      const auto fail = [&](int range) {
        if (range >= failing) throw ValueError(text("range ", range));
      };
      CHECK_THROWS_WITH_AS(team.run(ranges, fail), text("range ", failing).c_str(), ValueError);
    }
  }
}

TEST_CASE("thread team: wakes from sleep") {
  ThreadTeam team(2);
  for (int i = 0; i < 5; ++i) {
    std::atomic<int> parts{0};
    team.run(2, [&](int part) {
      // The caller falls asleep waiting for the worker, and the worker waiting for the next run.
      if (part == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++parts;
    });
    CHECK(parts == 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_CASE("thread team: workers block signals, except those of their own faults") {
  ThreadTeam team(2);
  sigset_t blocked;
  team.run(2, [&](int part) {
    if (part == 1) pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  for (int signal : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1}) CHECK(sigismember(&blocked, signal) == 1);
  for (int signal : {SIGSEGV, SIGFPE}) CHECK(sigismember(&blocked, signal) == 0);
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  CHECK(sigismember(&own, SIGINT) == 0);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow threads that are made after a fork

TEST_CASE("parallel_for: a forked child makes a team of its own; the parent keeps its team") {
  const Threads threads(3);
  const float sum = sum_of_parts(1000);
  CHECK(exit_status_of_child([&] {
          for (int i = 0; i < 100; ++i)
            if (sum_of_parts(1000) != sum) return 1;
          set_num_threads(2);
          sum_of_parts(1000);
          return 7;
        }) == 7);
  CHECK(sum_of_parts(1000) == sum);
}

TEST_CASE("cpu allocator: a child forked while another thread allocates can allocate") {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop) cpu_free(cpu_allocate(100), 100);
  });
  for (int i = 0; i < 40; ++i)
    CHECK(exit_status_of_child([] {
            cpu_free(cpu_allocate(100), 100);
            return 7;
          }) == 7);
  stop = true;
  other.join();
}

TEST_CASE("parallel_for: a child forked inside a loop gets an error there, not a hang") {
  const Threads threads(2);
  std::atomic<pid_t> child{0};
  bool refused = false;
  try {
    parallel_for(2, 1, [&](int64_t begin, int64_t) {
      if (begin == 0) child = fork();
      if (child == 0 && begin == 0) alarm(60);
    });
  } catch (const Error&) {
    refused = true;
  }
  if (child == 0) _exit(refused ? 7 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(!refused);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE(
    "parallel_for: a program may call exit() anywhere but inside a loop, and compute in its last "
    "destructors") {
  const Threads threads(3);
  CHECK(exit_status_of_child([] {
          static struct AtExit {
            float sum = sum_of_parts(1000);
            ~AtExit() {
              if (sum_of_parts(1000) != sum) _exit(1);
            }
          } at_exit;
          std::thread([] { sum_of_parts(1000); }).join();
          sum_of_parts(1000);
          std::exit(7);
          return 0;
        }) == 7);
}

#endif

}  // namespace tessera
