#include "tensor/cuda/memory/device_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "tensor/cuda/memory/segment_heap.h"
#include "tensor/cuda/runtime/check.h"
#include "tensor/cuda/runtime/device_guard.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/runtime/library.h"
#include "tensor/cuda/runtime/stream.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"

namespace tessera::cuda_runtime {
namespace {

constexpr int max_devices = 128;

/// A block that was given back while other streams may use it.
struct Waiting {
  Block* block;
  std::vector<Event> ends;  ///< of each of those streams
  std::set<cudaStream_t>
      recording;  ///< of them, those that record graphs, which use the block at each launch
};

/// Says to the simulated card that the bytes belong to another user from here on in `stream`: a use by the
/// last one that has not ended, and a read of what it left, are findings. Does nothing on a card.
void forget(void* block, int64_t bytes, cudaStream_t stream) {
  using Forget = int(const void*, size_t, void*);
  static const auto function =
      is_simulated() ? reinterpret_cast<Forget*>(find_symbol("tessera_cuda_sim_forget")) : nullptr;
  if (function != nullptr)
    check(static_cast<cudaError_t>(function(block, static_cast<size_t>(bytes), stream)), "forget");
}

/// What this rank's tensors hold, those on the CPU included: "parameter 1024, activation 4096". The account
/// has counted the `requested` bytes already.
std::string held_by_category(int64_t requested) {
  std::string list;
  for (int c = 0; c < memory_categories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    const int64_t bytes =
        current_account()->count(category).current - (category == current_category() ? requested : 0);
    if (bytes > 0) list = text(list, list.empty() ? "" : ", ", to_string(category), " ", bytes);
  }
  return list.empty() ? "none counted" : list;
}

class DeviceAllocator {
 public:
  explicit DeviceAllocator(Device device)
      : device_(device),
        heap_([this](int64_t bytes) { return take(bytes); },
              [](void* segment, int64_t) { cudaFree(segment); }) {}

  void* allocate(int64_t bytes, cudaStream_t stream) {
    require_graph_stream(stream, "allocation");
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(device_);
    collect(false);
    Block* block = heap_.allocate(bytes, stream);
    if (block == nullptr) {
      // What is cached may be what is missing: for other streams, or in blocks of another size.
      collect(true);
      heap_.release_free_segments();
      block = heap_.allocate(bytes, stream);
      if (block == nullptr) block = heap_.allocate_tightly(bytes, stream);
    }
    if (block == nullptr) throw_out_of_memory(bytes, bytes, stream);
    used_ += bytes;
    peak_used_ = std::max(peak_used_, used_);
    forget(block->address, block->bytes, stream);
    return block->address;
  }

  void* allocate_apart(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(device_);
    void* address = take(bytes);
    if (address == nullptr) {
      collect(true);
      heap_.release_free_segments();
      address = take(bytes);
    }
    if (address == nullptr) throw_out_of_memory(bytes, 0, nullptr);
    return address;
  }

  void free(void* address) noexcept {
    const std::lock_guard lock(mutex_);
    Block* block = heap_.find(address);
    used_ -= block->requested;
    const auto users = users_.find(block);
    if (users == users_.end()) return heap_.free(block);
    Waiting waiting{block, {}, {}};
    for (const auto& [stream, device] : users->second) {
      try {
        if (is_capturing(stream))
          waiting.recording.insert(stream);
        else
          waiting.ends.emplace_back(device).record(stream);
      } catch (const Error&) {
        // A lost device uses nothing any more.
      }
    }
    users_.erase(users);
    waiting_.push_back(std::move(waiting));
  }

  void use(void* address, Device stream_device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Block* block = heap_.find(address);
    if (block == nullptr || block->stream == stream) return;
    // A further stream of a recording may end before the graph does.
    const bool is_recorded =
        stream_device == device_ && recording_stream() != nullptr && is_capturing(stream);
    users_[block].emplace(is_recorded ? recording_stream() : stream, stream_device);
  }

  void empty() {
    const std::lock_guard lock(mutex_);
    const DeviceGuard guard(device_);
    collect(true);
    heap_.release_free_segments();
  }
  /// A stream that has ended is destroyed: no block waits for it.
  void forget_stream(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    for (auto& [block, streams] : users_) streams.erase(stream);
    for (Waiting& waiting : waiting_) waiting.recording.erase(stream);
    heap_.keep_segments_of(stream, false);
  }
  void keep_segments_of(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    heap_.keep_segments_of(stream, true);
  }

  DeviceAllocatorStatistics statistics() {
    const std::lock_guard lock(mutex_);
    int64_t waiting = 0;
    for (const Waiting& item : waiting_) waiting += item.block->requested;
    return {heap_.segments_taken(), heap_.reserved(), used_, peak_used_, waiting};
  }

 private:
  void* take(int64_t bytes) {
    void* address = nullptr;
    const cudaError_t status = cudaMalloc(&address, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(status, "cudaMalloc");
    return address;
  }

  /// Frees the blocks that other streams no longer use; with `waits`, all of them but those of graphs.
  void collect(bool waits) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (!it->recording.empty()) {
        ++it;
        continue;
      }
      if (waits)
        for (const Event& end : it->ends) end.synchronize();
      const bool done =
          std::all_of(it->ends.begin(), it->ends.end(), [](const Event& end) { return end.is_done(); });
      if (!done) {
        ++it;
        continue;
      }
      heap_.free(it->block);
      it = waiting_.erase(it);
    }
  }

  /// `counted`: of the bytes, those that the account has.
  [[noreturn]] void throw_out_of_memory(int64_t bytes, int64_t counted, cudaStream_t stream) const {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    const auto most = std::max(heap_.largest_free_of(stream), static_cast<int64_t>(free));
    throw OutOfMemoryError(text(
        "out of memory on ", device_, ": ", bytes, " bytes were requested, and at most ", most,
        " would fit; ", total, " bytes are there, ", used_, " are in use by tensors of this process, ",
        heap_.reserved() - used_, " are cached in blocks of at most ", heap_.largest_free(), ", and ", free,
        " are free; the tensors of this rank hold, other devices included: ", held_by_category(counted)));
  }

  Device device_;
  std::mutex mutex_;
  SegmentHeap heap_;
  std::unordered_map<Block*, std::map<cudaStream_t, Device>> users_;  ///< with the stream's device
  std::list<Waiting> waiting_;
  int64_t used_ = 0, peak_used_ = 0;
};

std::array<std::atomic<DeviceAllocator*>, max_devices> allocators{};

/// What is cached goes back when the process ends, so that a leak is distinguished from a cache. A lost
/// device takes nothing back.
void empty_at_exit() {
  for (const std::atomic<DeviceAllocator*>& each : allocators) {
    DeviceAllocator* const allocator = each;
    try {
      if (allocator != nullptr) allocator->empty();
    } catch (const Error&) {
    }
  }
}

/// Never destroyed: tensors may be, after main.
DeviceAllocator& allocator_of(Device device) {
  static std::array<std::once_flag, max_devices> made;
  std::call_once(made[device.index], [&] {
    static const int registered = std::atexit(&empty_at_exit);
    static_cast<void>(registered);
    allocators[device.index] = new DeviceAllocator(device);
  });
  return *allocators[device.index];
}

}  // namespace

void* device_allocate(Device device, int64_t nbytes, cudaStream_t stream) {
  return nbytes == 0 ? nullptr : allocator_of(device).allocate(nbytes, stream);
}

void* device_allocate_apart(Device device, int64_t nbytes) {
  return allocator_of(device).allocate_apart(nbytes);
}

void device_free(Device device, void* block) noexcept {
  if (block != nullptr) allocator_of(device).free(block);
}

void use_on_stream(Device device, void* block, cudaStream_t stream) {
  use_on_stream(device, block, device, stream);
}
void use_on_stream(Device device, void* block, Device stream_device, cudaStream_t stream) {
  if (block != nullptr) allocator_of(device).use(block, stream_device, stream);
}

void forget_stream(cudaStream_t stream) {
  for (const std::atomic<DeviceAllocator*>& each : allocators)
    if (DeviceAllocator* const allocator = each) allocator->forget_stream(stream);
}

void keep_segments_of(Device device, cudaStream_t stream) {
  allocator_of(device).keep_segments_of(stream);
}

void device_empty_cache(Device device) {
  allocator_of(device).empty();
}

DeviceAllocatorStatistics device_allocator_statistics(Device device) {
  return allocator_of(device).statistics();
}

}  // namespace tessera::cuda_runtime
