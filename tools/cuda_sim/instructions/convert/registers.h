// cvt: operands may lie in registers wider than their types. Reading narrows, writing extends.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tools/cuda_sim/instructions/lanes.h"

namespace tessera::cuda_sim {

/// flags[1] and flags[2] of cvt: bytes of the source's and the destination's register.
template <class Register, class S>
void narrow(Warp& warp, const Instruction& instruction, S* out) {
  const Register* const in = warp.values<Register>(instruction.source[0]);
  for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = static_cast<S>(in[lane]);
}

/// The source's values; `storage` holds them where its register is wider.
template <class S>
const S* source_values(Warp& warp, const Instruction& instruction, S* storage) {
  if constexpr (std::is_integral_v<S>) {
    const uint8_t bytes = instruction.flags[1];
    if (bytes != sizeof(S)) {
      if (bytes == 8) narrow<uint64_t>(warp, instruction, storage);
      if (bytes == 4) narrow<uint32_t>(warp, instruction, storage);
      if (bytes == 2) narrow<uint16_t>(warp, instruction, storage);
      return storage;
    }
  }
  return warp.values<S>(instruction.source[0]);
}

template <class Register, class D>
void write_extended(Warp& warp, const Instruction& instruction, const D* values) {
  write_lanes<Register>(warp, instruction.destination[0],
                        [=](int lane) { return static_cast<Register>(values[lane]); });
}

/// d = op(a), with registers of any width.
template <class D, class S, auto op>
void convert(Warp& warp, const Instruction& instruction) {
  alignas(64) S storage[warp_lanes];
  const S* const a = source_values(warp, instruction, storage);
  const uint8_t bytes = instruction.flags[2];
  if (bytes == sizeof(D)) {
    write_lanes<D>(warp, instruction.destination[0], [=](int lane) { return op(a[lane]); });
    return;
  }
  if constexpr (std::is_integral_v<D>) {
    alignas(64) D values[warp_lanes];
    CUDA_SIM_EACH_LANE
    for (int lane = 0; lane < warp_lanes; ++lane) values[lane] = op(a[lane]);
    if (bytes == 8) write_extended<uint64_t>(warp, instruction, values);
    if (bytes == 4) write_extended<uint32_t>(warp, instruction, values);
    if (bytes == 2) write_extended<uint16_t>(warp, instruction, values);
  }
}

}  // namespace tessera::cuda_sim
