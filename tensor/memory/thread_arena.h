#pragma once  // internal

#include <cstdint>

namespace tessera {

/// Working memory of the calling thread: blocks of one piece of memory, taken and given back mostly in the
/// order of a stack, without a lock that threads share. Between kernels the piece stays, at most
/// `arena_limit` bytes, so that a kernel finds the memory of its last call in its cache. It grows to what the
/// thread has needed at once.
inline constexpr int64_t arena_limit = int64_t{4} << 20;

/// A block of `nbytes` (64-byte aligned, uninitialised), or null where the arena has none: then the caching
/// allocator does. To be given back by the same thread.
void* arena_allocate(int64_t nbytes);
/// Gives the block back. Returns false where `block` is not of this thread's arena.
bool arena_free(void* block) noexcept;

}  // namespace tessera
