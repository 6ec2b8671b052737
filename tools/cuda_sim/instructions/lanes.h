// Loops over the 32 lanes of a warp: what nearly every instruction consists of.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/machine/warp.h"

/// Registers are whole arrays that never overlap in part, so lane l of a result depends on lane l alone.
#ifdef __clang__
#define CUDA_SIM_EACH_LANE _Pragma("clang loop vectorize(assume_safety)")
#else
#define CUDA_SIM_EACH_LANE _Pragma("GCC ivdep")
#endif

namespace tessera::cuda_sim {

/// Writes value(lane) to the active lanes of a register. All 32 values are computed, which is vectorised and
/// costs less than choosing lanes; so `value` must stand garbage in lanes that are not active.
template <class T, class Value>
inline __attribute__((always_inline)) void write_lanes(Warp& warp, Place destination, Value value) {
  T* const out = warp.values<T>(destination);
  const LaneMask active = warp.active();
  if (active == all_lanes) {
    CUDA_SIM_EACH_LANE
    for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = value(lane);
    return;
  }
  alignas(64) T computed[warp_lanes];
  CUDA_SIM_EACH_LANE
  for (int lane = 0; lane < warp_lanes; ++lane) computed[lane] = value(lane);
  CUDA_SIM_EACH_LANE
  for (int lane = 0; lane < warp_lanes; ++lane)
    out[lane] = (active >> lane & 1) != 0 ? computed[lane] : out[lane];
}

/// The lanes for which condition(lane) holds.
template <class Condition>
inline __attribute__((always_inline)) LaneMask lanes_where(Condition condition) {
  LaneMask result = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) result |= condition(lane) ? LaneMask{1} << lane : 0;
  return result;
}

/// Writes the active lanes' bits of a predicate; to the sink nothing.
inline void write_predicate(Warp& warp, Place destination, LaneMask values) {
  if (destination.is_absent()) return;
  LaneMask& predicate = warp.predicate(destination);
  predicate = (predicate & ~warp.active()) | (values & warp.active());
}

/// The predicate operand `place`, !p where `is_negated`.
inline LaneMask read_predicate(Warp& warp, Place place, bool is_negated) {
  const LaneMask values = warp.predicate(place);
  return is_negated ? ~values : values;
}

/// d = op(a).
template <class T, auto op>
void unary(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  write_lanes<T>(warp, instruction.destination[0], [=](int lane) { return static_cast<T>(op(a[lane])); });
}

/// d = op(a, b).
template <class T, auto op>
void binary(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  write_lanes<T>(warp, instruction.destination[0],
                 [=](int lane) { return static_cast<T>(op(a[lane], b[lane])); });
}

/// d = op(a, b, c).
template <class T, auto op>
void ternary(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  const T* const c = warp.values<T>(instruction.source[2]);
  write_lanes<T>(warp, instruction.destination[0],
                 [=](int lane) { return static_cast<T>(op(a[lane], b[lane], c[lane])); });
}

}  // namespace tessera::cuda_sim
