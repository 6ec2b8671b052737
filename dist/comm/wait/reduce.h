#pragma once

#include <algorithm>
#include <cstdint>

#include "dist/comm/interface/call.h"
#include "tensor/cpu/combine_sources.h"

/// How a transport shares out a reduction among ranks, and computes its own part.
namespace tessera::dist {

/// The kernel's name of a reduction.
constexpr kernels::cpu::Combination combination_of(Reduction reduction) {
  using kernels::cpu::Combination;
  constexpr Combination combinations[] = {Combination::sum, Combination::mean, Combination::smallest,
                                          Combination::largest};
  return combinations[static_cast<int>(reduction)];
}

/// A range of a tensor, in elements.
struct ElementRange {
  int64_t first = 0, count = 0;
};

/// The ranges of an all_reduce, and chunks, begin at multiples of this number of elements.
inline constexpr int64_t range_alignment = 64;

/// The range of `n` elements that rank `rank` of `ranks` sums in an all_reduce. Ranges of the last ranks may
/// be shorter, or empty.
constexpr ElementRange summed_range(int64_t n, int64_t ranks, int rank) {
  const int64_t length = (n + ranks * range_alignment - 1) / (ranks * range_alignment) * range_alignment;
  const int64_t first = std::min(rank * length, n);
  return {.first = first, .count = std::min(length, n - first)};
}

}  // namespace tessera::dist
