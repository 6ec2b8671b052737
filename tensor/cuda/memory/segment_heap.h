#pragma once  // internal

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace tessera::cuda_runtime {

/// A range of a segment, in use or free. The blocks of a segment form a list in the order of their addresses.
struct Block {
  char* address = nullptr;
  int64_t bytes = 0;
  const void* stream = nullptr;  ///< of its segment
  bool is_small = false;         ///< of a segment of small blocks
  bool is_used = false;
  int64_t requested = 0;  ///< while it is used
  Block *before = nullptr, *after = nullptr;
};

/// Blocks cut from large segments: best fit among the free blocks of a stream, split when given out, merged
/// with free neighbours when given back. Segments come from a function, so that tests need no device.
/// Requests up to 1 MiB are cut from segments of 2 MiB, so that small blocks do not break up large ones; up
/// to 10 MiB from segments of 20 MiB; larger ones have segments of their own, rounded to 2 MiB. (The sizes
/// are those of PyTorch's allocator, made by its experience.) Not thread-safe.
class SegmentHeap {
 public:
  /// Takes a segment of that size from the device; null where there is none. And gives one back.
  using Take = std::function<void*(int64_t bytes)>;
  using Give = std::function<void(void* segment, int64_t bytes)>;
  SegmentHeap(Take take, Give give) : take_(std::move(take)), give_(std::move(give)) {}
  ~SegmentHeap();
  SegmentHeap(const SegmentHeap&) = delete;
  SegmentHeap& operator=(const SegmentHeap&) = delete;

  static constexpr int64_t alignment = 512;

  /// A block of at least `bytes` for `stream`; null where neither the cache nor the device has one.
  Block* allocate(int64_t bytes, const void* stream);
  /// The same where that failed and free segments have been given back: a segment of just these bytes, or a
  /// free block of the stream that is kept for smaller or larger requests.
  Block* allocate_tightly(int64_t bytes, const void* stream);
  /// Makes a used block free, and joins it with its free neighbours.
  void free(Block* block);
  /// The used block that begins at `address`; null for none.
  Block* find(const void* address) const;
  /// Gives free segments back, but for those of streams whose segments are kept. Returns their bytes.
  int64_t release_free_segments();
  void keep_segments_of(const void* stream, bool keeps);

  int64_t reserved() const { return reserved_; }
  int64_t segments_taken() const { return segments_taken_; }
  /// The largest free block, of any stream but those with kept segments; and of one stream.
  int64_t largest_free() const;
  int64_t largest_free_of(const void* stream) const;

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using FreeList = std::set<Block*, BySize>;
  /// Free blocks of one stream, small ones and large ones apart.
  using Pools = std::map<std::pair<const void*, bool>, FreeList>;

  Block* take_free(int64_t bytes, const void* stream, bool is_small);
  Block* take_segment(int64_t size, const void* stream, bool is_small);
  /// Gives out the first `size` bytes of a free block.
  Block* use(Block* block, int64_t size, int64_t requested);
  void split(Block* block, int64_t bytes);
  void join(Block* left, Block* right);
  FreeList& pool_of(const Block& block) { return pools_[{block.stream, block.is_small}]; }

  Take take_;
  Give give_;
  Pools pools_;
  std::set<const void*> kept_streams_;
  std::unordered_map<const void*, Block*> used_;
  int64_t reserved_ = 0, segments_taken_ = 0;
};

}  // namespace tessera::cuda_runtime
