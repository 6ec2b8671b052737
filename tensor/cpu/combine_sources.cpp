#include "tensor/cpu/combine_sources.h"

#include <algorithm>
#include <cstring>

#include "tensor/cpu/isa/combine_sources.h"
#include "tensor/error.h"
#include "tensor/threads/parallel.h"

namespace tessera::kernels::cpu {
namespace {

/// The fewest bytes for which a second thread is worth its start.
constexpr int64_t grain_bytes = 256 << 10;
/// Elements: a thread's range begins on a cache line for every dtype.
constexpr int64_t line = 64;

}  // namespace

void combine_sources(DType dtype, Combination combination, std::span<const void* const> sources, void* out,
                     int64_t n) {
  require<ValueError>(!sources.empty(), "combine_sources: expected 1 array or more, got none");
  const auto kernel = TESSERA_PER_ISA(combine_block);
  const int count = static_cast<int>(sources.size());
  const int64_t width = size_of(dtype);
  if (n * width <= grain_bytes) {
    const FlushDenormals flushed;
    kernel(dtype, combination, sources.data(), count, 0, out, n);
    return;
  }
  parallel_for((n + line - 1) / line, grain_bytes / (width * line), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * line, last = std::min(end * line, n);
    kernel(dtype, combination, sources.data(), count, first, static_cast<char*>(out) + first * width,
           last - first);
  });
}

void copy_bytes(void* to, const void* from, int64_t nbytes) {
  if (nbytes <= grain_bytes) {
    if (nbytes > 0) std::memcpy(to, from, static_cast<size_t>(nbytes));
    return;
  }
  parallel_for((nbytes + line - 1) / line, grain_bytes / line, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * line, last = std::min(end * line, nbytes);
    std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                static_cast<size_t>(last - first));
  });
}

}  // namespace tessera::kernels::cpu
