#include "tensor/threads/wait_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

namespace tessera {
namespace {

/// Twice the time to fall asleep and be woken (100 us on a virtual machine, less on bare metal), so that
/// workers still spin after the gaps between the loops of a training step.
constexpr std::chrono::microseconds longest_spin{200};
/// Reads of the value between two reads of the clock.
constexpr int reads_per_clock = 32;

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

// The waiter sets `asleep_` and then reads the value; a change writes the value and then reads `asleep_`. In
// the one order of all sequentially consistent operations at least one of them sees the other's write, so no
// wake-up is lost.

void WaitWord::set(uint32_t value) {
  changed_on_.store(sched_getcpu(), std::memory_order_relaxed);
  value_.store(value);
  wake();
}

void WaitWord::count_down() {
  changed_on_.store(sched_getcpu(), std::memory_order_relaxed);
  if (value_.fetch_sub(1) == 1) wake();
}

template <class Done>
bool WaitWord::spin_until(Done done) const {
  const auto deadline = std::chrono::steady_clock::now() + longest_spin;
  do {
    for (int i = 0; i < reads_per_clock; ++i) {
      if (done(value())) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

template <class Done>
uint32_t WaitWord::wait(Done done, bool spin) {
  uint32_t now = value();
  if (done(now)) return now;
  if (spin && changed_on_.load(std::memory_order_relaxed) != sched_getcpu() && spin_until(done))
    return value();
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
