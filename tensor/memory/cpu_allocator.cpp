#include "tensor/memory/cpu_allocator.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace tessera {
namespace {

/// Addresses to reserve at a time. Twice the machine's memory, so that all blocks lie in one range and can be
/// merged; little where addresses are limited (`ulimit -v`), since other code needs them too.
int64_t default_range_bytes() {
  constexpr int64_t min_bytes = int64_t{64} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return min_bytes;
  return std::max<int64_t>(min_bytes, 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

/// Never destroyed: static objects that are destroyed later may hold storages.
CachingAllocator& allocator() {
  static CachingAllocator* const instance = [] {
    auto* const made = new CachingAllocator(default_range_bytes());
    // A lock that another thread holds during a fork would stay locked in the child.
    pthread_atfork([] { allocator().lock(); }, [] { allocator().unlock(); }, [] { allocator().unlock(); });
    return made;
  }();
  return *instance;
}

}  // namespace

void* cpu_allocate(int64_t nbytes) {
  return nbytes > 0 ? allocator().allocate(nbytes) : nullptr;
}

void cpu_free(void* block, int64_t nbytes) noexcept {
  if (block) allocator().deallocate(block, nbytes);
}

void cpu_empty_cache() noexcept {
  allocator().empty();
}

CpuAllocatorStatistics cpu_allocator_statistics() {
  return allocator().statistics();
}

}  // namespace tessera
