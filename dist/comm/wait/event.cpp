#include "dist/comm/wait/event.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera::dist {
namespace {

/// Reads of the count between two reads of the clock.
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

// `sleep` sets asleep_, then reads the count once more; `signal` raises the count, then reads asleep_. All
// four are sequentially consistent, so at least one side sees the other's write and no signal is lost.

void Event::signal() {
  last_signal_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
  signals_.fetch_add(1);
  if (asleep_.load() != 0) futex(signals_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Event::spin(uint32_t seen, std::chrono::microseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  do {
    if (last_signal_cpu_.load(std::memory_order_relaxed) == sched_getcpu()) {
      // Yield, not sleep: the scheduler moves only runnable threads to another processor.
      if (signals() != seen) return true;
      sched_yield();
      continue;
    }
    for (int read = 0; read < reads_per_clock; ++read) {
      if (signals() != seen) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return signals() != seen;
}

void Event::sleep(uint32_t seen, std::chrono::milliseconds limit) {
  const timespec timeout{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  asleep_.store(1);
  if (signals_.load() == seen) futex(signals_, FUTEX_WAIT, seen, &timeout);
  asleep_.store(0, std::memory_order_relaxed);
}

}  // namespace tessera::dist
