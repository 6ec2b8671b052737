#pragma once  // internal

#include <array>
#include <cstdint>
#include <vector>

#include "tensor/memory/page_range.h"

namespace tessera {

/// Blocks of any size in ranges of addresses: a block is split from a larger free one, and merged with its
/// free neighbours when it is given back. Finding one takes constant time: free blocks are listed by size
/// class, 32 to every power of two, and bits mark the lists that are not empty ("two-level segregated fit",
/// Masmano et al., 2004). A size is rounded up to its class, so at most 1/32 of a block and 80 bytes are
/// unused. Free blocks of up to 32 KiB stay unmerged in lists by size, 1 MiB in all at most. Not thread-safe.
///
/// A header of 16 bytes lies just before each block's memory, which is 64-byte aligned.
class BlockHeap {
 public:
  /// `range_bytes`: addresses reserved at a time, none before the first block.
  explicit BlockHeap(int64_t range_bytes) : range_bytes_(range_bytes) {}
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  /// No block is larger: more than the addresses of a process.
  static constexpr int64_t max_bytes = int64_t{1} << 46;

  /// `bytes` (at least 1) of uninitialised memory; null where the system has none. Where more must be taken
  /// from the system, and more than `max_reserved` bytes would be held then, pages of free blocks are given
  /// back first.
  void* allocate(int64_t bytes, int64_t max_reserved);
  /// Frees a block that `allocate` returned.
  void deallocate(void* memory) noexcept;
  /// Gives pages of free blocks back, the largest blocks' first, until at most `reserved` bytes are held or
  /// no free block has a whole granule of pages.
  void trim(int64_t reserved) noexcept;

  /// Bytes taken from the system and not given back.
  int64_t reserved() const { return reserved_; }
  /// The number of times that memory was taken from the system.
  int64_t system_allocations() const { return system_allocations_; }

 private:
  struct Block;
  struct Class {
    int first, second;
  };
  static constexpr int first_levels = 40, second_levels = 32;
  static constexpr int64_t unit = 64, max_small = 32 << 10, max_small_bytes = 1 << 20;

  static int64_t rounded(int64_t bytes);
  static Class class_of(int64_t size);
  Block*& small_list(int64_t size);
  PageRange& range_of(const Block* block);
  Block* find(int64_t size) const;
  Block* find_or_add_range(int64_t size);
  int64_t missing(Block* block, int64_t size);
  bool add_range(int64_t size);
  bool add_free_block(PageRange range);
  bool commit(Block* block, int64_t size, int64_t max_reserved);
  void split(Block* block, int64_t size);
  void merge_and_list(Block* block) noexcept;
  void list(Block* block) noexcept;
  void unlist(Block* block) noexcept;
  void merge_small_blocks() noexcept;

  int64_t range_bytes_;
  int64_t reserved_ = 0, system_allocations_ = 0, small_bytes_ = 0;
  std::vector<PageRange> ranges_;
  uint64_t first_bits_ = 0;
  std::array<uint32_t, first_levels> second_bits_{};
  std::array<std::array<Block*, second_levels>, first_levels> free_{};
  std::array<Block*, 6 * second_levels> small_{};  ///< of up to `max_small`, by class: one size per list
};

}  // namespace tessera
