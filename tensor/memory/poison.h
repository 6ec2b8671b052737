#pragma once  // internal

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_POISONS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_POISONS_MEMORY 1
#endif
#endif
#if defined(TESSERA_POISONS_MEMORY)
#include <sanitizer/asan_interface.h>
#endif

/// Marks memory of our own allocator for the address sanitizer, which then reports the use of free blocks,
/// and of what follows a block's bytes. Without the sanitizer these do nothing.
namespace tessera {

#if defined(TESSERA_POISONS_MEMORY)

/// Bytes at a block's end that are never used.
inline constexpr int64_t red_zone = 64;

/// Marks [from, to) as not to be used, and as usable again.
/// @{
inline void poison(std::byte* from, std::byte* to) {
  __asan_poison_memory_region(from, static_cast<size_t>(to - from));
}
inline void unpoison(std::byte* from, std::byte* to) {
  __asan_unpoison_memory_region(from, static_cast<size_t>(to - from));
}
/// @}

#else

/// Bytes at a block's end that are never used: none without the sanitizer.
inline constexpr int64_t red_zone = 0;
/// Mark memory as not to be used, and as usable again; without the sanitizer, nothing.
/// @{
inline void poison(std::byte*, std::byte*) {}
inline void unpoison(std::byte*, std::byte*) {}
/// @}

#endif

}  // namespace tessera
