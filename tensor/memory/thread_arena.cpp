#include "tensor/memory/thread_arena.h"

#include <algorithm>
#include <cstddef>

#include "tensor/memory/cpu_allocator.h"
#include "tensor/memory/poison.h"

namespace tessera {
namespace {

constexpr int most_blocks = 64;

/// The blocks in use form a stack. One that is given back before those above it stays until they are.
struct Arena {
  char* base = nullptr;
  int64_t capacity = 0, used = 0;
  int64_t wanted = 0;  ///< the most bytes at once that were asked for and would be within the limit
  int blocks = 0;
  int64_t begins[most_blocks];
  bool is_free[most_blocks];
  bool has_ended = false;
};

// Without a destructor, so that destructors of other objects of the thread may compute after it has ended.
thread_local Arena arena;

std::byte* bytes_at(void* p) {
  return static_cast<std::byte*>(p);
}

void give_back() {
  if (arena.base != nullptr) unpoison(bytes_at(arena.base), bytes_at(arena.base) + arena.capacity);
  cpu_free(arena.base, arena.capacity);
  arena.base = nullptr;
  arena.capacity = 0;
}

struct ArenaEnd {
  ~ArenaEnd() {
    arena.has_ended = true;
    if (arena.blocks == 0) give_back();
  }
};
thread_local ArenaEnd arena_end;

/// The bytes of a block, with those after it that show the address sanitizer a write beyond it.
int64_t rounded(int64_t bytes) {
  return red_zone + (bytes + cpu_alignment - 1) / cpu_alignment * cpu_alignment;
}

void grow() {
  static_cast<void>(&arena_end);  // made, so that it is destroyed
  give_back();
  // Doubled, so that it is not copied for each kernel that needs a little more.
  const int64_t bytes = std::min(arena_limit, std::max<int64_t>(2 * arena.wanted, 64 << 10));
  arena.base = static_cast<char*>(cpu_allocate(bytes));
  arena.capacity = bytes;
  poison(bytes_at(arena.base), bytes_at(arena.base) + bytes);
}

}  // namespace

void* arena_allocate(int64_t nbytes) {
  const int64_t bytes = rounded(nbytes);
  if (arena.has_ended || arena.blocks == most_blocks || arena.used + bytes > arena_limit) return nullptr;
  arena.wanted = std::max(arena.wanted, arena.used + bytes);
  if (arena.blocks == 0 && arena.wanted > arena.capacity) grow();
  if (arena.used + bytes > arena.capacity) return nullptr;
  char* const block = arena.base + arena.used;
  arena.begins[arena.blocks] = arena.used;
  arena.is_free[arena.blocks++] = false;
  arena.used += bytes;
  unpoison(bytes_at(block), bytes_at(block) + nbytes);
  return block;
}

bool arena_free(void* block) noexcept {
  const int64_t begin = static_cast<char*>(block) - arena.base;
  if (arena.base == nullptr || begin < 0 || begin >= arena.capacity) return false;
  for (int i = arena.blocks - 1; i >= 0; --i)
    if (arena.begins[i] == begin) {
      arena.is_free[i] = true;
      const int64_t end = i + 1 < arena.blocks ? arena.begins[i + 1] : arena.used;
      poison(bytes_at(block), bytes_at(arena.base) + end);
      break;
    }
  while (arena.blocks > 0 && arena.is_free[arena.blocks - 1]) arena.used = arena.begins[--arena.blocks];
  return true;
}

}  // namespace tessera
