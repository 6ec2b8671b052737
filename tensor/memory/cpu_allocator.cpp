#include "tensor/memory/cpu_allocator.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace tessera {
namespace {

/// Twice the machine's memory: blocks of any size then find each other in one range. Little where addresses
/// are limited (`ulimit -v`), since others need them too.
int64_t addresses_at_a_time() {
  constexpr int64_t least = int64_t{64} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return least;
  return std::max<int64_t>(least, 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
}

/// Never destroyed: storages in static objects may outlive any order of destruction.
CachingAllocator& allocator() {
  static CachingAllocator* const instance = [] {
    auto* const made = new CachingAllocator(addresses_at_a_time());
    // A lock that another thread holds during a fork would stay locked in the child for good.
    pthread_atfork([] { allocator().lock(); }, [] { allocator().unlock(); }, [] { allocator().unlock(); });
    return made;
  }();
  return *instance;
}

}  // namespace

void* cpu_allocate(int64_t nbytes) {
  return nbytes > 0 ? allocator().take(nbytes) : nullptr;
}

void cpu_free(void* block, int64_t nbytes) noexcept {
  if (block) allocator().give(block, nbytes);
}

void cpu_empty_cache() noexcept {
  allocator().empty();
}

CpuAllocatorStatistics cpu_allocator_statistics() {
  return allocator().statistics();
}

}  // namespace tessera
