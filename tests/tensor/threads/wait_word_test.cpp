// The counter that threads and ranks wait on. A wait that loses a wake-up ends at its limit, or hangs until
// the test's time limit.

#include "tensor/threads/wait_word.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds a_minute{60'000};

/// Waits as a rank does, until the word is `value`: asleep where spinning for `spin` was not enough. False
/// where a sleep ended at its limit.
bool wait_until(WaitWord& word, uint32_t value, microseconds spin) {
  const auto deadline = Clock::now() + a_minute;
  for (uint32_t seen = word.value(); seen != value; seen = word.value()) {
    if (word.spin_while(seen, spin)) continue;
    word.sleep_while(seen, a_minute);
    if (Clock::now() >= deadline) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("wait word: no wake-up is lost between two threads, spinning or asleep") {
  constexpr uint32_t rounds = 1000;
  for (const bool spin : {false, true}) {
    WaitWord there, back;
    std::thread other([&] {
      for (uint32_t i = 0; i < rounds; ++i) {
        there.wait_while(i, spin);
        back.signal();
      }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
      there.set(i + 1);
      CHECK(back.wait_while(i, spin) == i + 1);
    }
    other.join();
  }
}

TEST_CASE("wait word: no signal is lost to a wait with a deadline") {
  constexpr uint32_t rounds = 1000;
  for (const microseconds spin : {microseconds(0), microseconds(100)}) {
    WaitWord there, back;
    std::thread other([&] {
      for (uint32_t i = 0; i < rounds; ++i) {
        CHECK(wait_until(there, i + 1, spin));
        back.signal();
      }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
      there.signal();
      CHECK(wait_until(back, i + 1, spin));
    }
    other.join();
  }
}

TEST_CASE("wait word: the waiter for 0 returns when all have counted down") {
  for (int round = 0; round < 100; ++round) {
    WaitWord unfinished;
    std::atomic<int> counted{0};
    unfinished.reset(3);
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i)
      others.emplace_back([&] {
        counted.fetch_add(1);
        unfinished.count_down();
      });
    unfinished.wait_for_zero(round % 2 == 0);
    CHECK(counted == 3);
    for (std::thread& other : others) other.join();
  }
}

TEST_CASE("wait word: spinning and sleeping end at their limits, and at once where the value differs") {
  WaitWord word;
  const auto begin = Clock::now();
  CHECK(!word.spin_while(0, milliseconds(5)));
  CHECK(Clock::now() - begin >= milliseconds(5));
  word.sleep_while(0, milliseconds(20));
  CHECK(Clock::now() - begin < a_minute);
  CHECK(word.spin_while(1, a_minute));
  word.sleep_while(1, a_minute);
  word.signal();  // from this processor: the spin yields
  CHECK(!word.spin_while(1, milliseconds(5)));
  CHECK(word.spin_while(0, a_minute));
  CHECK(Clock::now() - begin < a_minute);
}

TEST_CASE("wait word: a signal wakes all that sleep") {
  WaitWord word;
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i)
    sleepers.emplace_back([&] {
      const auto deadline = Clock::now() + a_minute;
      while (word.value() == 0 && Clock::now() < deadline) word.sleep_while(0, a_minute);
      woken.fetch_add(Clock::now() < deadline ? 1 : 0);
    });
  std::this_thread::sleep_for(milliseconds(50));
  word.signal();
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(woken == 3);
}

TEST_CASE("wait word: another process wakes a sleeper through shared memory") {
  void* const memory =
      ::mmap(nullptr, sizeof(WaitWord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  WaitWord& word = *new (memory) WaitWord;
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(50'000);
    word.signal();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  const auto begin = Clock::now();
  while (word.value() == 0 && Clock::now() - begin < a_minute) word.sleep_while(0, a_minute);
  CHECK(word.value() == 1);
  CHECK(Clock::now() - begin < a_minute);
  CHECK(::waitpid(child, nullptr, 0) == child);
  ::munmap(memory, sizeof(WaitWord));
}

}  // namespace tessera
