// What loads, stores and atomics share: the modifiers of an access, and the addresses of the lanes.
#pragma once

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/machine/access.h"

namespace tessera::cuda_sim {

/// Order and scope of the modifiers .weak, .volatile, .relaxed, .acquire, .release, .acq_rel and .cta,
/// .cluster, .gpu, .sys (PTX ISA, "Memory Consistency Model"). `unmarked` is the order where none is written.
void decode_order(DecodeContext& context, Order unmarked);

/// Refuses modifiers other than types, state spaces, orders, scopes, hints about caches, and `allowed`.
void allow_memory_modifiers(const DecodeContext& context, std::initializer_list<std::string_view> allowed);

/// The address operand into source[index]; its width into flags[2]: 4 or 8 bytes.
void decode_address(DecodeContext& context, int operand, size_t index = 0);

/// The addresses of the active lanes, from source[index] and the offset `immediate`.
template <size_t index = 0>
inline __attribute__((always_inline)) void fill_addresses(Warp& warp, const Instruction& instruction,
                                                          Access& access) {
  const auto offset = static_cast<uint64_t>(instruction.immediate);
  if (instruction.flags[2] == 8) {
    const auto* const base = warp.values<uint64_t>(instruction.source[index]);
    for (size_t lane = 0; lane < warp_lanes; ++lane) access.address[lane] = base[lane] + offset;
  } else {
    const auto* const base = warp.values<uint32_t>(instruction.source[index]);
    for (size_t lane = 0; lane < warp_lanes; ++lane)
      access.address[lane] = static_cast<uint32_t>(base[lane] + static_cast<uint32_t>(offset));
  }
}

/// Whether an access may be of shared memory, which only one host thread uses.
inline bool is_shared(const Access& access, size_t lane) {
  return access.space == Space::shared ||
         (access.space == Space::generic && access.address[lane] - shared_window < window_bytes);
}

}  // namespace tessera::cuda_sim
