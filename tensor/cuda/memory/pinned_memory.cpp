#include "tensor/cuda/memory/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/error.h"

namespace tessera::cuda_runtime {
namespace {

/// Powers of two, so that a block serves requests of other sizes; the least is a page.
int64_t block_bytes(int64_t nbytes) {
  int64_t bytes = 4096;
  while (bytes < nbytes) bytes *= 2;
  return bytes;
}

/// A block, and the ends of the copies that use it.
struct PinnedBlock {
  char* address = nullptr;
  int64_t bytes = 0;
  std::vector<Event> uses;

  /// A device that is lost uses nothing any more.
  bool is_idle() const noexcept {
    return std::all_of(uses.begin(), uses.end(), [](const Event& end) {
      try {
        return end.is_done();
      } catch (const Error&) {
        return true;
      }
    });
  }
};

class PinnedMemory : public MemorySource {
 public:
  void* take(int64_t nbytes) override {
    if (nbytes == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const int64_t bytes = block_bytes(nbytes);
    for (auto [it, end] = free_.equal_range(bytes); it != end; ++it) {
      if (!it->second.is_idle()) continue;
      void* const address = it->second.address;
      it->second.uses.clear();
      used_[static_cast<char*>(address)] = std::move(it->second);
      free_.erase(it);
      return address;
    }
    require_loaded();
    void* block = nullptr;
    check(cudaHostAlloc(&block, static_cast<size_t>(bytes), cudaHostAllocPortable), "cudaHostAlloc");
    used_[static_cast<char*>(block)] = {static_cast<char*>(block), bytes, {}};
    return block;
  }

  void give(void* block, int64_t) noexcept override {
    if (block == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(static_cast<char*>(block));
    if (found == used_.end()) return;
    free_.emplace(found->second.bytes, std::move(found->second));
    used_.erase(found);
  }

  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    return find(address) != nullptr;
  }

  void use(const void* address, Device device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    PinnedBlock* const block = find(address);
    if (block == nullptr) return;
    std::erase_if(block->uses, [](const Event& end) { return end.is_done(); });
    block->uses.emplace_back(device).record(stream);
  }

  /// Gives the cached blocks back to the runtime.
  void empty() {
    const std::lock_guard lock(mutex_);
    for (auto& [bytes, block] : free_) {
      block.uses.clear();
      cudaFreeHost(block.address);  // waits for the device
    }
    free_.clear();
  }

 private:
  PinnedBlock* find(const void* address) {
    auto after = used_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    if (after == used_.begin()) return nullptr;
    PinnedBlock& block = std::prev(after)->second;
    return address < block.address + block.bytes ? &block : nullptr;
  }

  std::mutex mutex_;
  std::map<char*, PinnedBlock> used_;
  std::multimap<int64_t, PinnedBlock> free_;
};

PinnedMemory& source() {
  return static_cast<PinnedMemory&>(*pinned_memory());
}

}  // namespace

std::shared_ptr<MemorySource> pinned_memory() {
  static auto* source = new std::shared_ptr<PinnedMemory>(std::make_shared<PinnedMemory>());
  static const int registered = std::atexit([] { (*source)->empty(); });
  static_cast<void>(registered);
  return *source;
}

bool is_pinned(const void* address) {
  return address != nullptr && source().contains(address);
}

void use_pinned(const void* address, Device device, cudaStream_t stream) {
  source().use(address, device, stream);
}

}  // namespace tessera::cuda_runtime
