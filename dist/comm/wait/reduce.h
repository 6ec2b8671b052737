#pragma once  // internal

#include "dist/comm/interface/call.h"
#include "tensor/cpu/combine_sources.h"

/// Reductions as the kernel names them.
namespace tessera::dist {

/// The kernel's name of a reduction.
constexpr kernels::cpu::Combination combination_of(Reduction reduction) {
  using kernels::cpu::Combination;
  constexpr Combination combinations[] = {Combination::sum, Combination::mean, Combination::smallest,
                                          Combination::largest};
  return combinations[static_cast<int>(reduction)];
}

}  // namespace tessera::dist
