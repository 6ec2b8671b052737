#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::dist {

/// The event that a waiting rank waits for. Whatever changes something that the rank may wait for makes the
/// change first and signals the event then. One event serves all calls of a rank. It may lie in memory that
/// processes share. A signal costs a system call only when the rank sleeps.
class alignas(64) Event {
 public:
  /// The number of signals so far. Read it, test the condition, then spin or sleep until the number changes.
  uint32_t signals() const { return signals_.load(std::memory_order_acquire); }
  void signal();
  /// Waits, without sleeping and at most for `limit`, until the number differs from `seen`; returns whether
  /// it does. Where the last signal came from this processor, it yields to other threads between two reads.
  bool spin(uint32_t seen, std::chrono::microseconds limit) const;
  /// Sleeps until the number differs from `seen`, at most for `limit`.
  void sleep(uint32_t seen, std::chrono::milliseconds limit);

 private:
  std::atomic<uint32_t> signals_{0};
  std::atomic<uint32_t> asleep_{0};
  std::atomic<int32_t> last_signal_cpu_{-1};  ///< the processor that the last signal came from
};

}  // namespace tessera::dist
