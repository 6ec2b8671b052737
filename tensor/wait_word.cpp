#include "tensor/wait_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace tessera {
namespace {

/// The longest spin: twice what falling asleep and being woken takes (100 us on a virtual machine, less on
/// bare metal), so that the gaps between the loops of a training step are waited out.
constexpr std::chrono::nanoseconds longest_spin = std::chrono::microseconds(200);
constexpr std::chrono::nanoseconds shortest_spin = std::chrono::microseconds(10);
/// Looks at the number between two looks at the clock.
constexpr int looks = 32;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  static_assert(sizeof word == sizeof value);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

}  // namespace

void WaitWord::wake() {
  if (asleep_.load()) futex(value_, FUTEX_WAKE_PRIVATE, 1);
}

// The waiter announces its sleep and then looks at the number once more; whoever changes the number does so
// and then looks for a sleeper. In the one order of all sequentially consistent operations at least one of
// them sees the other, so no wake-up is lost.

void WaitWord::set(uint32_t value) {
  value_.store(value);
  wake();
}

void WaitWord::count_down() {
  if (value_.fetch_sub(1) == 1) wake();
}

template <class Done>
bool WaitWord::spin_until(Done done) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + patience_;
  do {
    for (int look = 0; look < looks; ++look) {
      if (done(value())) {
        if (patience_ < longest_spin) patience_ = std::min(longest_spin, patience_ + longest_spin / 8);
        return true;
      }
      pause_briefly();
    }
  } while (Clock::now() < deadline);
  patience_ = std::max(shortest_spin, patience_ / 2);
  return false;
}

template <class Done>
uint32_t WaitWord::wait(Done done, bool spin) {
  uint32_t now = value();
  if (done(now) || (spin && spin_until(done))) return value();
  asleep_.store(true);
  while (!done(now = value_.load())) futex(value_, FUTEX_WAIT_PRIVATE, now);
  asleep_.store(false, std::memory_order_relaxed);
  return now;
}

uint32_t WaitWord::wait_while(uint32_t value, bool spin) {
  return wait([value](uint32_t now) { return now != value; }, spin);
}

void WaitWord::wait_for_zero(bool spin) {
  wait([](uint32_t now) { return now == 0; }, spin);
}

}  // namespace tessera
