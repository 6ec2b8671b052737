#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

/// A number on which one thread waits, spinning at first and then asleep, while others change it. A change
/// costs a system call only when the waiter sleeps. Who spun in vain is less patient the next time: on a busy
/// machine the others may be waiting for the very processor. Waiting orders memory as acquire, changing as
/// release.
class alignas(64) WaitWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Sets the number and wakes the waiter.
  void set(uint32_t value);
  /// Subtracts 1, and wakes the waiter at 0.
  void count_down();
  /// Returns when the number is another than `value`, and says which.
  uint32_t wait_while(uint32_t value, bool spin);
  /// Returns when the number is 0.
  void wait_for_zero(bool spin);

 private:
  template <class Done>
  uint32_t wait(Done done, bool spin);
  template <class Done>
  bool spin_until(Done done);
  void wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<bool> asleep_{false};
  std::chrono::nanoseconds patience_{std::chrono::microseconds(200)};  ///< how long to spin; the waiter's own
};

}  // namespace tessera
