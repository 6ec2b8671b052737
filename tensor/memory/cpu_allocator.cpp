#include "tensor/memory/cpu_allocator.h"

#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tensor/error.h"

namespace tessera {
namespace {

constexpr int64_t huge_page = int64_t{2} << 20;

/// Size classes: multiples of 64 up to 512, then eight to every power of two, so that at most 1/8 is unused.
struct SizeClass {
  int index;
  int64_t bytes;
};

SizeClass size_class(int64_t nbytes) {
  const int64_t units = (nbytes + cpu_alignment - 1) / cpu_alignment;
  if (units <= 8) return {static_cast<int>(units), units * cpu_alignment};
  const int log = std::bit_width(static_cast<uint64_t>(units - 1)) - 1;  // 2^log < units <= 2^(log+1)
  const int64_t step = int64_t{1} << (log - 3);
  const int64_t eighths = (units - (int64_t{1} << log) + step - 1) / step;  // 1 to 8
  return {(log - 2) * 8 + static_cast<int>(eighths), ((int64_t{1} << log) + eighths * step) * cpu_alignment};
}

class Pool {
 public:
  void* take(int64_t nbytes) {
    const SizeClass size = size_class(nbytes);
    {
      std::lock_guard lock(mutex_);
      if (static_cast<size_t>(size.index) < free_.size() && !free_[size.index].empty()) {
        void* block = free_[size.index].back();
        free_[size.index].pop_back();
        statistics_.cached -= size.bytes;
        return block;
      }
    }
    void* block = from_system(size.bytes);
    if (!block) {
      empty();
      block = from_system(size.bytes);
    }
    require<OutOfMemoryError>(block != nullptr, "cpu: the system has no ", nbytes, " bytes left (",
                              statistics().reserved, " bytes are in use)");
    std::lock_guard lock(mutex_);
    ++statistics_.system_allocations;
    statistics_.reserved += size.bytes;
    return block;
  }

  void give(void* block, int64_t nbytes) noexcept {
    const SizeClass size = size_class(nbytes);
    std::lock_guard lock(mutex_);
    if (free_.size() <= static_cast<size_t>(size.index)) free_.resize(size.index + 1);
    free_[size.index].push_back(block);
    statistics_.cached += size.bytes;
  }

  void empty() noexcept {
    std::lock_guard lock(mutex_);
    for (auto& blocks : free_) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
    statistics_.reserved -= statistics_.cached;
    statistics_.cached = 0;
  }

  CpuAllocatorStatistics statistics() {
    std::lock_guard lock(mutex_);
    return statistics_;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void* from_system(int64_t bytes) {
    const bool large = bytes >= 2 * huge_page;
    const int64_t alignment = large ? huge_page : cpu_alignment;
    void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block && large) madvise(block, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed only
    return block;
  }

  std::mutex mutex_;
  std::vector<std::vector<void*>> free_;
  CpuAllocatorStatistics statistics_;
};

/// Never destroyed: storages in static objects may outlive any order of destruction.
Pool& pool() {
  static Pool* const instance = [] {
    Pool* const made = new Pool;
    // A lock that another thread holds during a fork would stay locked in the child for good.
    pthread_atfork([] { pool().lock(); }, [] { pool().unlock(); }, [] { pool().unlock(); });
    return made;
  }();
  return *instance;
}

}  // namespace

void* cpu_allocate(int64_t nbytes) {
  return nbytes > 0 ? pool().take(nbytes) : nullptr;
}

void cpu_free(void* block, int64_t nbytes) noexcept {
  if (block) pool().give(block, nbytes);
}

void cpu_empty_cache() noexcept {
  pool().empty();
}

CpuAllocatorStatistics cpu_allocator_statistics() {
  return pool().statistics();
}

}  // namespace tessera
