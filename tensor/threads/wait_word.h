#pragma once  // internal

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// A counter on which threads wait, spinning at first and then asleep, while others change it. It may lie in
/// memory that processes share. A change costs a system call only while a waiter sleeps. Waiting orders
/// memory as acquire, changing as release.
///
/// A waiter does not spin on the processor that the last change came from: on a busy machine the other thread
/// needs that processor.
class alignas(64) WaitWord {
 public:
  /// The counter now (acquire).
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Sets the value; for the waiter itself, between two waits.
  void reset(uint32_t value) { value_.store(value, std::memory_order_release); }
  /// Sets the value and wakes the waiters.
  void set(uint32_t value);
  /// Adds 1 and wakes the waiters, for a word that stands for a change elsewhere: the change is made first.
  void signal();
  /// Subtracts 1, and wakes the waiters at 0.
  void count_down();
  /// Waits while the counter is `value`; returns its new value.
  uint32_t wait_while(uint32_t value, bool spin);
  /// Returns when the value is 0.
  void wait_for_zero(bool spin);

  /// The halves of a wait with a deadline. Read the value, test what is waited for, then spin, then sleep.
  ///
  /// Waits at most for `limit`, without sleeping, while the counter is `value`; returns whether it changed.
  /// Where the last change came from this processor, it yields to other threads between two reads.
  bool spin_while(uint32_t value, std::chrono::microseconds limit) const;
  /// Sleeps at most for `limit` while the counter is `value`. It may return earlier.
  void sleep_while(uint32_t value, std::chrono::milliseconds limit);

 private:
  template <class Done>
  uint32_t wait(Done done, bool spin);
  template <class Done>
  bool spin_until(Done done, std::chrono::microseconds limit, bool yields) const;
  bool was_changed_here() const;
  void wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<int32_t> changed_on_{-1};  ///< the processor that the last change came from
};

}  // namespace tessera
