#pragma once

#include <atomic>
#include <cstdint>

namespace tessera {

/// A counter on which one thread waits, spinning at first and then asleep, while others change it. A change
/// costs a system call only when the waiter sleeps. The waiter does not spin on the processor that the last
/// change came from: on a busy machine the other thread needs that processor. Waiting orders memory as
/// acquire, changing as release.
class alignas(64) WaitWord {
 public:
  /// The counter now (acquire).
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Sets the value; for the waiter itself, between two waits.
  void reset(uint32_t value) { value_.store(value, std::memory_order_release); }
  /// Sets the value and wakes the waiter.
  void set(uint32_t value);
  /// Subtracts 1, and wakes the waiter at 0.
  void count_down();
  /// Waits while the counter is `value`; returns its new value.
  uint32_t wait_while(uint32_t value, bool spin);
  /// Returns when the value is 0.
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
