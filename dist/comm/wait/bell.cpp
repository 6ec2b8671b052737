#include "dist/comm/wait/bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera::dist {
namespace {

/// Looks at the number between two looks at the clock.
constexpr int looks = 32;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not FUTEX_PRIVATE: the word may be shared by processes.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* most) {
  static_assert(sizeof word == sizeof value && std::atomic<uint32_t>::is_always_lock_free);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, most, nullptr, 0);
}

}  // namespace

// The listener announces its sleep and looks at the number once more; who rings changes the number and then
// looks for a sleeper. In the one order of all sequentially consistent operations at least one of them sees
// the other, so no ring is lost.

void Bell::ring() {
  rung_on_.store(sched_getcpu(), std::memory_order_relaxed);
  rings_.fetch_add(1);
  if (asleep_.load() != 0) futex(rings_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Bell::spin(uint32_t seen, std::chrono::microseconds most) const {
  const auto deadline = std::chrono::steady_clock::now() + most;
  do {
    if (rung_on_.load(std::memory_order_relaxed) == sched_getcpu()) {
      // Asleep, the two would go on taking turns on one processor: only threads that want to run are moved.
      if (rings() != seen) return true;
      sched_yield();
      continue;
    }
    for (int look = 0; look < looks; ++look) {
      if (rings() != seen) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return rings() != seen;
}

void Bell::sleep(uint32_t seen, std::chrono::milliseconds most) {
  const timespec limit{.tv_sec = most.count() / 1000, .tv_nsec = most.count() % 1000 * 1'000'000};
  asleep_.store(1);
  if (rings_.load() == seen) futex(rings_, FUTEX_WAIT, seen, &limit);
  asleep_.store(0, std::memory_order_relaxed);
}

}  // namespace tessera::dist
