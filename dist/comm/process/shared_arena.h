#pragma once  // internal

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "dist/comm/node/layout.h"
#include "dist/comm/process/free_ranges.h"
#include "dist/comm/process/process_place.h"
#include "tensor/memory/storage.h"

namespace tessera::dist {

/// What another process needs to map an arena. Plain bytes, which are sent to it.
struct ArenaPlace {
  ProcessPlace process;  ///< the owner
  int64_t capacity = 0;
  uint64_t token =
      0;          ///< a random number that the arena contains, so that another file is not mistaken for it
  int file = -1;  ///< the owner's descriptor
};

/// A file in shared memory, mapped in full. Its size is that of the machine's memory, but only reserved
/// ranges have pages; the owner reserves, others only read. The file never has a name: others open it by the
/// owner's descriptor, and the kernel removes it with the last process that maps it, however that ends.
class SharedMapping {
 public:
  /// Makes a new file of `capacity` bytes. Throws OutOfMemoryError naming what failed.
  static SharedMapping create(int64_t capacity);
  /// Maps the file of another process. Throws likewise.
  static SharedMapping open(const ArenaPlace& place);
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();

  char* data() const { return data_; }
  int64_t capacity() const { return capacity_; }
  int file() const { return file_; }
  /// Makes sure that these bytes exist (posix_fallocate). False where there is no room.
  bool reserve(int64_t offset, int64_t nbytes);

 private:
  SharedMapping(int file, int64_t capacity, const std::string& what);

  int file_ = -1;
  char* data_ = nullptr;
  int64_t capacity_;
};

struct ArenaOptions {
  /// Bytes reserved at the start, and the least that is reserved at a time later.
  int64_t step = int64_t{32} << 20;
  /// The most that is reserved; 0: what there is.
  int64_t limit = 0;
};

/// Memory of this process that the other processes of the machine read: the source of `Communicator::empty`.
/// It grows by steps whose pages are reserved, so that no later write can fail for lack of memory. Blocks
/// given back are used again. Where nothing more can be reserved, further blocks come from the allocator;
/// others then read them through a staging buffer, for which a quarter of the first step is a reserve.
class SharedArena final : public MemorySource {
 public:
  /// Throws OutOfMemoryError with the reason where the first step of shared memory cannot be reserved.
  static std::shared_ptr<SharedArena> create(const ArenaOptions& options = {});
  /// The state of this process's rank: at the arena's beginning.
  node::RankBlock& block() const { return *reinterpret_cast<node::RankBlock*>(memory_.data()); }
  /// The same in another process's memory.
  static node::RankBlock& block_in(char* memory) { return *reinterpret_cast<node::RankBlock*>(memory); }
  static node::FailureRecord& failure_in(char* memory);

  /// What other processes need to open it.
  ArenaPlace place() const;
  /// Maps another process's arena. Throws OutOfMemoryError with the reason where this process cannot, or
  /// where the file is not that arena.
  static SharedMapping open(const ArenaPlace& place);
  char* data() const { return memory_.data(); }
  int64_t capacity() const { return memory_.capacity(); }
  bool holds(const void* data, int64_t nbytes) const;

  void* take(int64_t nbytes) override;
  void give(void* block, int64_t nbytes) noexcept override;
  /// For memory that others must see, such as staging buffers. Where the rest is used up it comes from the
  /// reserve; null where that is used up too.
  void* take_shared(int64_t nbytes);

  /// Bytes that are reserved, and bytes that came from the allocator because they did not fit.
  int64_t reserved() const;
  int64_t outside() const;

 private:
  explicit SharedArena(const ArenaOptions& options);
  bool grow(int64_t nbytes);
  int64_t take_range(int64_t nbytes);

  const ArenaOptions options_;
  SharedMapping memory_;
  uint64_t token_;
  mutable std::mutex mutex_;
  FreeRanges free_, reserve_;
  int64_t reserve_begin_ = 0, reserve_end_ = 0;  ///< the range of the reserve, in use or not
  int64_t reserved_ = 0, outside_ = 0;
};

}  // namespace tessera::dist
