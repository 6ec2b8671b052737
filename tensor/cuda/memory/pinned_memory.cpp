#include "tensor/cuda/memory/pinned_memory.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/library.h"

namespace tessera::cuda_runtime {
namespace {

/// Powers of two, so that a block serves requests of other sizes; the least is a page.
int64_t block_bytes(int64_t nbytes) {
  int64_t bytes = 4096;
  while (bytes < nbytes) bytes *= 2;
  return bytes;
}

class PinnedMemory : public MemorySource {
 public:
  void* take(int64_t nbytes) override {
    if (nbytes == 0) return nullptr;
    const int64_t bytes = block_bytes(nbytes);
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(bytes); found != free_.end()) {
      void* block = found->second;
      free_.erase(found);
      return block;
    }
    require_loaded();
    void* block = nullptr;
    check(cudaHostAlloc(&block, static_cast<size_t>(bytes), cudaHostAllocPortable), "cudaHostAlloc");
    return block;
  }

  void give(void* block, int64_t nbytes) noexcept override {
    if (block == nullptr) return;
    const std::lock_guard lock(mutex_);
    free_.emplace(block_bytes(nbytes), block);
  }

  /// Gives the cached blocks back to the runtime.
  void empty() {
    const std::lock_guard lock(mutex_);
    for (const auto& [bytes, block] : free_) cudaFreeHost(block);
    free_.clear();
  }

 private:
  std::mutex mutex_;
  std::multimap<int64_t, void*> free_;
};

}  // namespace

std::shared_ptr<MemorySource> pinned_memory() {
  static auto* source = new std::shared_ptr<PinnedMemory>(std::make_shared<PinnedMemory>());
  static const int registered = std::atexit([] { (*source)->empty(); });
  static_cast<void>(registered);
  return *source;
}

}  // namespace tessera::cuda_runtime
