// Names of PTX's special registers (PTX ISA, "Special Registers").
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

/// A special register that is written when a block begins: %tid.x.
std::optional<Place> special_register(std::string_view name);
/// One with the same value in every thread: %cluster_nctaid.x, WARP_SZ.
std::optional<uint32_t> constant_register(std::string_view name);
/// One that changes while a kernel runs: %clock64; null for others. `bytes` are those of its values.
Execute clock_register(std::string_view name, int bytes);

inline constexpr Place place_of(SpecialRegister name) {
  return Place::in_register(static_cast<uint32_t>(name) * 4 * warp_lanes);
}
/// Bytes of all special registers, which lie first in a warp.
inline constexpr uint32_t special_register_bytes =
    static_cast<uint32_t>(SpecialRegister::count) * 4 * warp_lanes;

}  // namespace tessera::cuda_sim
