#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::dist {

/// What a waiting rank listens to: whoever changes something that it may wait for, changes that first and
/// then rings. One bell serves all calls of a rank. It may lie in memory that processes share. A ring costs a
/// system call only when the listener sleeps.
class alignas(64) Bell {
 public:
  /// The number of rings so far. Read it, look at what is waited for, and then listen for the next.
  uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  void ring();
  /// Looks for another number than `seen`, for `most` at longest, without sleeping; whether it came. Where
  /// the last ring came from this very processor, others run there between two looks.
  bool spin(uint32_t seen, std::chrono::microseconds most) const;
  /// Sleeps until there is another number than `seen`, for `most` at longest.
  void sleep(uint32_t seen, std::chrono::milliseconds most);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> asleep_{0};
  std::atomic<int32_t> rung_on_{-1};  ///< the processor that the last ring came from
};

}  // namespace tessera::dist
