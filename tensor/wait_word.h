#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

/// A number on which one thread waits, spinning at first and then asleep, while others change it. A change
/// costs a system call only when the waiter sleeps. Waiting on it orders memory as acquire, changing it as
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
  void wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<bool> asleep_{false};
};

}  // namespace tessera
