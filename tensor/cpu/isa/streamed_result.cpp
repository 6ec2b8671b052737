// Stores past the caches: a processor gathers the bytes of a line and sends it to memory whole.
#include "tensor/cpu/loops/streamed_result.h"

#include <algorithm>

#include "tensor/cpu/isa/lanes.h"

namespace tessera::kernels::cpu::TESSERA_ISA {
namespace {

constexpr int64_t line = 64;

/// A line, aligned in `to`.
[[gnu::always_inline]] inline void stream_line(const char* from, char* to) {
  for (int64_t i = 0; i < line; i += register_bytes) {
    Register<float> part;
    std::memcpy(&part, from + i, sizeof part);
    stream(reinterpret_cast<float*>(to + i), part);
  }
}

}  // namespace

void stream_bytes(const void* from_bytes, int64_t bytes, void* to_bytes) {
  const char* from = static_cast<const char*>(from_bytes);
  char* to = static_cast<char*>(to_bytes);
  const auto before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % line);
  const int64_t first = std::min(before, bytes);
  std::memcpy(to, from, first);
  int64_t i = first;
  for (; i + line <= bytes; i += line) stream_line(from + i, to + i);
  std::memcpy(to + i, from + i, bytes - i);
}

void finish_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace tessera::kernels::cpu::TESSERA_ISA
