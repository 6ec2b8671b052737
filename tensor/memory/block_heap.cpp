#include "tensor/memory/block_heap.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tensor/memory/poison.h"

namespace tessera {

/// The header before a block's memory. Blocks of a range follow one another without gaps.
struct BlockHeap::Block {
  Block* before;   ///< the previous block in memory; null for a range's first
  uint64_t state;  ///< its bytes, this header included, and the flags below
  // Of a free block, in its memory:
  Block *next_free, *previous_free;

  static constexpr uint64_t free = 1, last = 2, flags = 63;
  static constexpr uint64_t committed = 4;  ///< all its pages are held
  static constexpr int64_t header = 16;

  int64_t size() const { return static_cast<int64_t>(state & ~flags); }
  bool is(uint64_t flag) const { return state & flag; }
  std::byte* memory() { return reinterpret_cast<std::byte*>(this) + header; }
  std::byte* end() { return reinterpret_cast<std::byte*>(this) + size(); }
  Block* after() { return is(last) ? nullptr : reinterpret_cast<Block*>(end()); }
  std::byte* begin() { return reinterpret_cast<std::byte*>(this); }

  /// The memory of a block of `bytes` in use: whole vectors of it may be read, what follows may not.
  void* use(int64_t bytes) {
    std::byte* const used_end = memory() + (bytes + unit - 1) / unit * unit;
    unpoison(memory(), used_end);
    poison(used_end, end());
    return memory();
  }
  static Block* of(void* memory) {
    return reinterpret_cast<Block*>(static_cast<std::byte*>(memory) - header);
  }
};

int64_t BlockHeap::rounded(int64_t bytes) {
  const int64_t units = (bytes + Block::header + red_zone + unit - 1) / unit;
  if (units < 2 * second_levels) return units * unit;
  const int64_t step = int64_t{1} << (std::bit_width(static_cast<uint64_t>(units)) - 6);
  return (units + step - 1) / step * step * unit;
}

BlockHeap::Class BlockHeap::class_of(int64_t size) {
  const int64_t units = size / unit;
  if (units < second_levels) return {0, static_cast<int>(units)};
  const int log = static_cast<int>(std::bit_width(static_cast<uint64_t>(units))) - 1;
  return {log - 4, static_cast<int>(units >> (log - 5)) - second_levels};
}

BlockHeap::Block*& BlockHeap::small_list(int64_t size) {
  const auto [first, second] = class_of(size);
  return small_[static_cast<size_t>(first) * second_levels + static_cast<size_t>(second)];
}

void* BlockHeap::allocate(int64_t bytes, int64_t max_reserved) {
  if (bytes > max_bytes) return nullptr;
  const int64_t size = rounded(bytes);
  if (size <= max_small && small_list(size)) {
    Block* const block = std::exchange(small_list(size), small_list(size)->next_free);
    small_bytes_ -= size;
    return block->use(bytes);
  }
  Block* block = find_or_add_range(size);
  if (block && small_bytes_ > 0 && missing(block, size) > 0) {
    merge_small_blocks();
    block = find(size);
  }
  if (!block) return nullptr;
  unlist(block);
  if (!commit(block, size, max_reserved)) {
    list(block);
    return nullptr;
  }
  split(block, size);
  return block->use(bytes);
}

void BlockHeap::deallocate(void* memory) noexcept {
  Block* const block = Block::of(memory);
  const int64_t size = block->size();
  poison(block->begin() + sizeof(Block), block->end());
  if (size > max_small) return merge_and_list(block);
  if (small_bytes_ + size > max_small_bytes) merge_small_blocks();
  block->next_free = std::exchange(small_list(size), block);
  small_bytes_ += size;
}

void BlockHeap::trim(int64_t reserved) noexcept {
  if (reserved_ <= reserved) return;
  merge_small_blocks();
  const int least = class_of(PageRange::granule).first;
  for (int first = first_levels - 1; first >= least; --first)
    for (int second = second_levels - 1; second >= 0; --second)
      for (Block* block = free_[first][second]; block; block = block->next_free) {
        if (reserved_ <= reserved) return;
        const int64_t given = range_of(block).release(block->begin() + sizeof(Block), block->end());
        if (given > 0) block->state &= ~Block::committed;
        reserved_ -= given;
      }
}

PageRange& BlockHeap::range_of(const Block* block) {
  return *std::find_if(ranges_.begin(), ranges_.end(),
                       [block](const PageRange& range) { return range.contains(block); });
}

/// The first block of the smallest class of blocks that all have `size` bytes, a rounded size; null for none.
BlockHeap::Block* BlockHeap::find(int64_t size) const {
  auto [first, second] = class_of(size);
  uint32_t seconds = second_bits_[first] & (~uint32_t{0} << second);
  if (!seconds) {
    const uint64_t firsts = first_bits_ & (~uint64_t{0} << first << 1);
    if (!firsts) return nullptr;
    first = std::countr_zero(firsts);
    seconds = second_bits_[first];
  }
  return free_[first][std::countr_zero(seconds)];
}

BlockHeap::Block* BlockHeap::find_or_add_range(int64_t size) {
  if (Block* const block = find(size)) return block;
  merge_small_blocks();
  if (Block* const block = find(size)) return block;
  return add_range(size) ? find(size) : nullptr;
}

/// Reserves addresses for a block of `size`; fewer than usual where the system limits them.
bool BlockHeap::add_range(int64_t size) {
  const int64_t least = size + PageRange::growth;
  for (int64_t bytes = std::max(range_bytes_, least);; bytes = std::max(bytes / 2, least)) {
    PageRange range(bytes);
    if (range.bytes() > 0) return add_free_block(std::move(range));
    if (bytes == least) return false;
  }
}

/// Lists all of a new range as one free block.
bool BlockHeap::add_free_block(PageRange range) {
  Block* const block = reinterpret_cast<Block*>(range.begin() + unit - Block::header);
  const int64_t taken = range.commit(block, block + 1);
  if (taken < 0) return false;
  reserved_ += taken;
  ++system_allocations_;
  block->before = nullptr;
  block->state = static_cast<uint64_t>(range.bytes() - unit) | Block::last;
  ranges_.push_back(std::move(range));
  list(block);
  return true;
}

/// Bytes to take from the system for the first `size` bytes of a block and for the header of what is left.
int64_t BlockHeap::missing(Block* block, int64_t size) {
  if (block->is(Block::committed)) return 0;
  const PageRange& range = range_of(block);
  return range.missing(block->begin(), std::min(block->begin() + size + sizeof(Block), range.end()));
}

bool BlockHeap::commit(Block* block, int64_t size, int64_t max_reserved) {
  const int64_t needed = missing(block, size);
  if (needed == 0) return true;
  PageRange& range = range_of(block);
  if (reserved_ + needed > max_reserved) {
    reserved_ -= range.release(block->begin() + size + sizeof(Block), block->end());
    trim(max_reserved - needed);
  }
  const int64_t taken =
      range.commit(block->begin(), std::min(block->begin() + size + sizeof(Block), range.end()));
  if (taken < 0) return false;
  reserved_ += taken;
  ++system_allocations_;
  return true;
}

/// Shortens `block`, which is in no list and now in use, to `size` bytes, and lists what is left of it.
void BlockHeap::split(Block* block, int64_t size) {
  const uint64_t rest = static_cast<uint64_t>(block->size() - size), kept = block->state & Block::flags;
  if (rest > 0) {
    Block* const remainder = reinterpret_cast<Block*>(block->begin() + size);
    unpoison(remainder->begin(), remainder->begin() + sizeof(Block));
    remainder->before = block;
    remainder->state = rest | (kept & (Block::last | Block::committed));
    if (Block* const after = remainder->after()) after->before = remainder;
    list(remainder);
  }
  block->state = static_cast<uint64_t>(size) | (rest > 0 ? 0 : kept & Block::last);
}

/// Merges a block that was in use with its free neighbours, and lists the result.
void BlockHeap::merge_and_list(Block* block) noexcept {
  block->state |= Block::committed;
  const auto absorb = [](Block* into, Block* after) {
    const uint64_t committed = into->state & after->state & Block::committed;
    into->state =
        (static_cast<uint64_t>(into->size() + after->size()) | (after->state & Block::last) | committed);
    if (Block* const next = into->after()) next->before = into;
    poison(after->begin(), after->begin() + sizeof(Block));
  };
  if (Block* const after = block->after(); after && after->is(Block::free)) {
    unlist(after);
    absorb(block, after);
  }
  if (Block* const before = block->before; before && before->is(Block::free)) {
    unlist(before);
    absorb(before, block);
    block = before;
  }
  list(block);
}

void BlockHeap::list(Block* block) noexcept {
  const auto [first, second] = class_of(block->size());
  Block*& head = free_[first][second];
  block->state |= Block::free;
  block->next_free = head;
  block->previous_free = nullptr;
  if (head) head->previous_free = block;
  head = block;
  first_bits_ |= uint64_t{1} << first;
  second_bits_[first] |= uint32_t{1} << second;
}

void BlockHeap::unlist(Block* block) noexcept {
  const auto [first, second] = class_of(block->size());
  Block*& head = free_[first][second];
  if (block->next_free) block->next_free->previous_free = block->previous_free;
  if (block->previous_free)
    block->previous_free->next_free = block->next_free;
  else
    head = block->next_free;
  block->state &= ~Block::free;
  if (head) return;
  second_bits_[first] &= ~(uint32_t{1} << second);
  if (!second_bits_[first]) first_bits_ &= ~(uint64_t{1} << first);
}

void BlockHeap::merge_small_blocks() noexcept {
  for (Block*& head : small_)
    while (head) {
      Block* const block = head;
      head = block->next_free;
      merge_and_list(block);
    }
  small_bytes_ = 0;
}

}  // namespace tessera
