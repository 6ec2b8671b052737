#include "tensor/threads/wait_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

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

// Not FUTEX_PRIVATE: processes may share the word.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof word == sizeof value && std::atomic<uint32_t>::is_always_lock_free);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

// A waiter raises `sleepers_` and then reads the value; a change writes the value and then reads `sleepers_`.
// In the one order of all sequentially consistent operations at least one of them sees the other's write, so
// no wake-up is lost.

void WaitWord::wake() {
  if (sleepers_.load() != 0) futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

void WaitWord::set(uint32_t value) {
  changed_on_.store(sched_getcpu(), std::memory_order_relaxed);
  value_.store(value);
  wake();
}

void WaitWord::signal() {
  changed_on_.store(sched_getcpu(), std::memory_order_relaxed);
  value_.fetch_add(1);
  wake();
}

void WaitWord::count_down() {
  changed_on_.store(sched_getcpu(), std::memory_order_relaxed);
  if (value_.fetch_sub(1) == 1) wake();
}

bool WaitWord::was_changed_here() const {
  return changed_on_.load(std::memory_order_relaxed) == sched_getcpu();
}

template <class Done>
bool WaitWord::spin_until(Done done, std::chrono::microseconds limit, bool yields) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  do {
    if (yields && was_changed_here()) {
      // Yield, not sleep: the scheduler moves only runnable threads to another processor.
      if (done(value())) return true;
      sched_yield();
      continue;
    }
    for (int i = 0; i < reads_per_clock; ++i) {
      if (done(value())) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done(value());
}

template <class Done>
uint32_t WaitWord::wait(Done done, bool spin) {
  uint32_t now = value();
  if (done(now)) return now;
  if (spin && !was_changed_here() && spin_until(done, longest_spin, false)) return value();
  sleepers_.fetch_add(1);
  while (!done(now = value_.load())) futex(value_, FUTEX_WAIT, now, nullptr);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

uint32_t WaitWord::wait_while(uint32_t value, bool spin) {
  return wait([value](uint32_t now) { return now != value; }, spin);
}

void WaitWord::wait_for_zero(bool spin) {
  wait([](uint32_t now) { return now == 0; }, spin);
}

bool WaitWord::spin_while(uint32_t value, std::chrono::microseconds limit) const {
  return spin_until([value](uint32_t now) { return now != value; }, limit, true);
}

void WaitWord::sleep_while(uint32_t value, std::chrono::milliseconds limit) {
  const timespec timeout{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  sleepers_.fetch_add(1);
  if (value_.load() == value) futex(value_, FUTEX_WAIT, value, &timeout);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tessera
