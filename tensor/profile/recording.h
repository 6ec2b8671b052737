#pragma once  // internal

#include <array>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/memory/intrusive_ptr.h"
#include "tensor/profile/span.h"

/// The store of recorded spans. Internal to tensor/profile.
namespace tessera::detail {

/// The spans of one thread. Only that thread writes; any thread may read what is written, at any time.
class ThreadLog : public RefCounted<ThreadLog> {
 public:
  ThreadLog(std::thread::id thread, int rank) : thread_(thread), rank_(rank) {}
  ~ThreadLog();

  void append(const Span& span);
  /// Calls `visit(span)` for every span so far, in the order in which they ended.
  template <class Visit>
  void for_each(Visit visit) const {
    int64_t left = size_.load(std::memory_order_acquire);
    if (left == 0) return;
    for (const Chunk* chunk = first_.get();; chunk = chunk->next.get()) {
      for (int64_t i = 0; i < chunk_size && left > 0; ++i, --left) visit(chunk->spans[i]);
      if (left == 0) return;  // the thread may be making the next chunk
    }
  }

  std::thread::id thread() const { return thread_; }
  int rank() const { return rank_; }
  /// Open spans per kind: which spans are nested follows from it. Only for the log's thread.
  std::array<int, span_kinds> depth{};

 private:
  static constexpr int64_t chunk_size = 1024;
  struct Chunk {
    std::array<Span, chunk_size> spans;
    std::unique_ptr<Chunk> next;
  };

  const std::thread::id thread_;
  const int rank_;
  std::unique_ptr<Chunk> first_;
  Chunk* last_ = nullptr;
  std::atomic<int64_t> size_{0};
};

/// Everything that one Profiler recorded.
class Recording : public RefCounted<Recording> {
 public:
  Recording();
  uint64_t id() const { return id_; }
  /// The log of the calling thread, made at its first call.
  intrusive_ptr<ThreadLog> log_of_this_thread(int rank);
  std::vector<intrusive_ptr<ThreadLog>> logs() const;

 private:
  const uint64_t id_;
  mutable std::mutex mutex_;
  std::vector<intrusive_ptr<ThreadLog>> logs_;
};

/// Makes `recording` the active one, or none (null). Throws ValueError when another one is active already.
void activate(const intrusive_ptr<Recording>& recording);

}  // namespace tessera::detail
