// PTX ISA, "Data Movement and Conversion Instructions": cvta, isspacep, prefetch, prefetchu, discard,
// applypriority.
#include <algorithm>
#include <array>

#include "tools/cuda_sim/instructions/memory/access.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// First byte of a state space's window in the generic addresses; global and constant addresses are generic.
uint64_t window_of(DecodeContext& context) {
  if (context.has("shared") || context.has("shared::cta")) return shared_window;
  if (context.has("local")) return local_window;
  if (context.has("param") || context.has("param::entry")) return parameter_window;
  if (!context.has("global") && !context.has("const")) context.unknown("state space");
  return 0;
}

/// d = a + immediate.
void execute_cvta(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint64_t>(instruction.source[0]);
  const auto offset = static_cast<uint64_t>(instruction.immediate);
  write_lanes<uint64_t>(warp, instruction.destination[0], [=](int lane) { return a[lane] + offset; });
}

// "cvta": from a state space to generic; .to: back.
void decode_cvta(DecodeContext& context) {
  allow_memory_modifiers(context, {"to"});
  if (context.type() != Type::u64) context.unknown("type");
  decode_same_type(context, 1, Type::u64, execute_cvta);
  const uint64_t window = window_of(context);
  context.result().immediate = static_cast<int64_t>(context.has("to") ? 0 - window : window);
}

/// flags[0]: what is asked is whether the address is in none of the windows.
void execute_isspacep(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint64_t>(instruction.source[0]);
  const auto window = static_cast<uint64_t>(instruction.immediate);
  const LaneMask result = instruction.flags[0] != 0
                              ? lanes_where([=](int lane) {
                                  return a[lane] - shared_window >= 3 * (local_window - shared_window);
                                })
                              : lanes_where([=](int lane) { return a[lane] - window < window_bytes; });
  write_predicate(warp, instruction.destination[0], result);
}

// "isspacep".
void decode_isspacep(DecodeContext& context) {
  allow_memory_modifiers(context, {});
  expect_operands(context, 2);
  Instruction& result = context.result();
  result.execute = execute_isspacep;
  result.destination[0] = context.destination(0);
  result.source[0] = context.source(1, Type::u64);
  const uint64_t window = window_of(context);
  result.immediate = static_cast<int64_t>(window);
  result.flags[0] = window == 0 ? 1 : 0;
}

// "prefetch", "prefetchu", "applypriority": they change no value.
void decode_prefetch(DecodeContext& context) {
  allow_memory_modifiers(context, {"L1", "L2", "tensormap"});
  context.result().flow = Flow::nothing;
}

/// "discard.L2": what the 128 bytes hold is undefined from then on. Here they become all ones.
void execute_discard(Warp& warp, const Instruction& instruction) {
  Access access;
  access.space = instruction.space;
  access.is_write = true;
  access.bytes = 128;
  access.lanes = warp.active();
  fill_addresses(warp, instruction, access);
  HostPointers host;
  access_memory(warp, instruction, access, host);
  for (std::byte* const bytes : host)
    if (bytes != nullptr) std::fill_n(bytes, 128, std::byte{0xff});
}

void decode_discard(DecodeContext& context) {
  allow_memory_modifiers(context, {"L2"});
  expect_operands(context, 2);
  decode_address(context, 0);
  context.result().execute = execute_discard;
}

constexpr std::array rows = {
    OpcodeRow{"cvta", decode_cvta},         OpcodeRow{"isspacep", decode_isspacep},
    OpcodeRow{"prefetch", decode_prefetch}, OpcodeRow{"prefetchu", decode_prefetch},
    OpcodeRow{"discard", decode_discard},   OpcodeRow{"applypriority", decode_prefetch},
};

}  // namespace

std::span<const OpcodeRow> address_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
