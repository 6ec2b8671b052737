// PTX ISA, "Floating Point Instructions": ex2, lg2, sin, cos, tanh of f32.
#include <array>
#include <cmath>

#include "tools/cuda_sim/instructions/floating/approximations.h"
#include "tools/cuda_sim/instructions/floating/execute.h"
#include "tools/cuda_sim/instructions/floating/floating.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim::floating {

namespace {

constexpr auto exponential = [](float a) { return static_cast<float>(exp2_of(a)); };
constexpr auto logarithm = [](float a) { return static_cast<float>(log2_of(a)); };
constexpr auto hyperbolic_tangent = [](float a) { return static_cast<float>(tanh_of(a)); };
constexpr auto sine = [](float a) { return static_cast<float>(std::sin(static_cast<double>(a))); };
constexpr auto cosine = [](float a) { return static_cast<float>(std::cos(static_cast<double>(a))); };

/// Counts a special function, then computes.
template <Execute inner>
void special(Warp& warp, const Instruction& instruction) {
  count_lanes<&KernelCounters::special_functions>(warp);
  inner(warp, instruction);
}

template <auto op>
void decode_special(DecodeContext& context) {
  if (context.type() != Type::f32) context.unknown("type");
  allow_modifiers(context, {"approx", "ftz"});
  decode_same_type(context, 1, Type::f32,
                   context.has("ftz") ? special<execute<float, op, 1, 0, Modifiers{true, false}>>
                                      : special<execute<float, op, 1, 0, Modifiers{}>>);
}

constexpr std::array rows = {
    OpcodeRow{"lg2", decode_special<logarithm>},
    OpcodeRow{"sin", decode_special<sine>},
    OpcodeRow{"cos", decode_special<cosine>},
};

}  // namespace

void decode_exponential(DecodeContext& context) {
  decode_special<exponential>(context);
}

void decode_tanh(DecodeContext& context) {
  decode_special<hyperbolic_tangent>(context);
}

}  // namespace tessera::cuda_sim::floating

namespace tessera::cuda_sim {

std::span<const OpcodeRow> special_function_rows() {
  return floating::rows;
}

}  // namespace tessera::cuda_sim
