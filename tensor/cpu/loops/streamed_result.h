#pragma once  // internal

#include <cstdint>

#include "tensor/cpu/isa.h"
#include "tensor/threads/parallel.h"

/// Results that are larger than the caches. An ordinary store first reads the line that it overwrites, so a
/// result of n bytes moves 2 n. Past the caches, whole lines are written and none is read. A kernel computes
/// a block in a buffer of the first-level cache, which is then written: any kernel can do that, and vectors
/// that straddle lines cost nothing.
namespace tessera::kernels::cpu {

/// Bytes of a result per thread from which on its lines go past the caches: a core's share of the last-level
/// cache on the processors measured.
inline constexpr int64_t streamed_bytes = 4 << 20;

/// Whether a result of `bytes` is written past the caches, where all `num_threads()` write equal parts of it.
inline bool streams_past_caches(int64_t bytes) {
  return bytes >= streamed_bytes * num_threads();
}

// clang-format off
TESSERA_DECLARE_PER_ISA(
  /// Copies bytes that do not overlap, whole lines past the caches. Other threads see them after
  /// `finish_streaming()`.
  void stream_bytes(const void* from, int64_t bytes, void* to);
  void finish_streaming();
)
// clang-format on

/// One thread's writer of a result, a block at a time.
class StreamedResult {
 public:
  /// Blocks are computed in `buffer`, or in place where that is null.
  explicit StreamedResult(void* buffer) : buffer_(buffer) {}
  ~StreamedResult() {
    if (buffer_) TESSERA_PER_ISA(finish_streaming)();
  }
  StreamedResult(const StreamedResult&) = delete;
  StreamedResult& operator=(const StreamedResult&) = delete;

  /// Where the block that belongs at `to` is computed.
  template <class T>
  T* block(T* to) const {
    return buffer_ && to ? static_cast<T*>(buffer_) : to;
  }
  /// Writes a block of `bytes` that was computed there.
  void write(void* to, int64_t bytes) const {
    if (buffer_ && to) TESSERA_PER_ISA(stream_bytes)(buffer_, bytes, to);
  }

 private:
  void* buffer_;
};

}  // namespace tessera::kernels::cpu
