#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

/// A number on which one thread waits, spinning at first and then asleep, while others change it. A change
/// costs a system call only when the waiter sleeps. Nobody spins on the very processor that the last change
/// came from: on a busy machine the other thread is waiting for it. Waiting orders memory as acquire,
/// changing as release.
class alignas(64) WaitWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Sets the number; for the waiter itself, between two waits.
  void reset(uint32_t value) { value_.store(value, std::memory_order_release); }
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
  bool spin_until(Done done) const;
  void wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<int> changed_on_{-1};  ///< the processor that the last change came from
  std::atomic<bool> asleep_{false};
};

}  // namespace tessera
