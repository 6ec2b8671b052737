// Templates for instructions of f32 and f64 with their modifiers .ftz, .sat and the roundings.
#pragma once

#include <cstdint>

#include "tools/cuda_sim/instructions/counting.h"
#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim::floating {

/// Modifiers that change operands and result.
struct Modifiers {
  bool flushes = false, saturates = false;
};

template <Modifiers modifiers, class T>
T operand(T x) {
  return modifiers.flushes ? flush(x) : x;
}

template <Modifiers modifiers, class T>
T result(T x) {
  if (modifiers.flushes) x = flush(x);
  return modifiers.saturates ? saturate(x) : x;
}

template <class T>
void count(Warp& warp, uint64_t per_lane) {
  if constexpr (sizeof(T) == 4)
    count_lanes<&KernelCounters::flops_f32>(warp, per_lane);
  else
    count_lanes<&KernelCounters::flops_f64>(warp, per_lane);
}

/// d = op(a), d = op(a, b) or d = op(a, b, c), counted as `operations` a lane.
template <class T, auto op, int sources, int operations, Modifiers m>
void execute(Warp& warp, const Instruction& instruction) {
  count<T>(warp, operations);
  const T* const a = warp.values<T>(instruction.source[0]);
  if constexpr (sources == 1) {
    write_lanes<T>(warp, instruction.destination[0],
                   [=](int lane) { return result<m>(static_cast<T>(op(operand<m>(a[lane])))); });
  } else {
    const T* const b = warp.values<T>(instruction.source[1]);
    if constexpr (sources == 2) {
      write_lanes<T>(warp, instruction.destination[0], [=](int lane) {
        return result<m>(static_cast<T>(op(operand<m>(a[lane]), operand<m>(b[lane]))));
      });
    } else {
      const T* const c = warp.values<T>(instruction.source[2]);
      write_lanes<T>(warp, instruction.destination[0], [=](int lane) {
        return result<m>(static_cast<T>(op(operand<m>(a[lane]), operand<m>(b[lane]), operand<m>(c[lane]))));
      });
    }
  }
}

/// The same in the rounding mode flags[0].
template <Execute inner>
void rounded(Warp& warp, const Instruction& instruction) {
  const RoundingScope scope(static_cast<Rounding>(instruction.flags[0]));
  inner(warp, instruction);
}

/// Chooses by .ftz, .sat and rounding. `may_round`: whether the instruction has directed roundings at all.
template <class T, auto op, int sources, int operations, bool may_round>
Execute choose(const DecodeContext& context) {
  const bool flushes = context.has("ftz"), saturates = context.has("sat");
  const bool is_directed = rounding_of(context) != Rounding::nearest;
  if constexpr (sizeof(T) == 8) {
    if (flushes || saturates) context.unknown("modifier of .f64");
    if constexpr (may_round)
      if (is_directed) return rounded<execute<T, op, sources, operations, Modifiers{}>>;
    return execute<T, op, sources, operations, Modifiers{}>;
  } else {
    constexpr Execute table[] = {execute<T, op, sources, operations, Modifiers{false, false}>,
                                 execute<T, op, sources, operations, Modifiers{false, true}>,
                                 execute<T, op, sources, operations, Modifiers{true, false}>,
                                 execute<T, op, sources, operations, Modifiers{true, true}>};
    const size_t row = (flushes ? 2 : 0) + (saturates ? 1 : 0);
    if constexpr (may_round) {
      constexpr Execute directed[] = {rounded<table[0]>, rounded<table[1]>, rounded<table[2]>,
                                      rounded<table[3]>};
      if (is_directed) return directed[row];
    }
    return table[row];
  }
}

/// Decodes an instruction of f32 or f64 with `sources` operands.
template <auto op, int sources, int operations = 1, bool may_round = false>
void decode(DecodeContext& context) {
  const Type type = context.type();
  const Execute execute = type == Type::f32   ? choose<float, op, sources, operations, may_round>(context)
                          : type == Type::f64 ? choose<double, op, sources, operations, may_round>(context)
                                              : nullptr;
  decode_same_type(context, sources, type, execute);
  context.result().flags[0] = static_cast<uint8_t>(rounding_of(context));
}

}  // namespace tessera::cuda_sim::floating
