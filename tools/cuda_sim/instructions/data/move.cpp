// PTX ISA, "Data Movement and Conversion Instructions": mov, with packing and unpacking of vectors.
#include <array>
#include <cstring>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

constexpr auto same = [](auto a) { return a; };

void move_predicate(Warp& warp, const Instruction& instruction) {
  write_predicate(warp, instruction.destination[0], warp.predicate(instruction.source[0]));
}

struct Bits128 {
  uint64_t low, high;
};

Execute for_move(int bytes) {
  return bytes == 16 ? unary<Bits128, same>
                     : for_bits(bytes, []<class T>(T) -> Execute { return unary<T, same>; });
}

/// mov.b64 d, {a, b}: the first element is the lowest part.
template <class Part, class Whole>
void pack_two(Warp& warp, const Instruction& instruction) {
  const Part* const low = warp.values<Part>(instruction.source[0]);
  const Part* const high = warp.values<Part>(instruction.source[1]);
  write_lanes<Whole>(warp, instruction.destination[0], [=](int lane) {
    return static_cast<Whole>(low[lane] | static_cast<Whole>(high[lane]) << (8 * sizeof(Part)));
  });
}

template <class Part, class Whole>
void unpack_two(Warp& warp, const Instruction& instruction) {
  const Whole* const whole = warp.values<Whole>(instruction.source[0]);
  for (size_t i = 0; i < 2; ++i) {
    if (instruction.destination[i].is_absent()) continue;  // the sink
    write_lanes<Part>(warp, instruction.destination[i],
                      [=](int lane) { return static_cast<Part>(whole[lane] >> (8 * sizeof(Part) * i)); });
  }
}

/// Four parts, and parts of other widths: `elements` of `bytes` each.
void pack(Warp& warp, const Instruction& instruction) {
  const size_t bytes = instruction.bytes, count = instruction.elements;
  for (size_t i = 0; i < count; ++i) {
    const auto* const part = warp.values<std::byte>(instruction.source[i]);
    auto* const whole = warp.values<std::byte>(instruction.destination[0]);
    for_active_lanes(warp, [&](int lane) {
      const auto at = static_cast<size_t>(lane);
      std::memcpy(whole + (at * count + i) * bytes, part + at * bytes, bytes);
    });
  }
}

void unpack(Warp& warp, const Instruction& instruction) {
  const size_t bytes = instruction.bytes, count = instruction.elements;
  const auto* const whole = warp.values<std::byte>(instruction.source[0]);
  for (size_t i = 0; i < count; ++i) {
    if (instruction.destination[i].is_absent()) continue;
    auto* const part = warp.values<std::byte>(instruction.destination[i]);
    for_active_lanes(warp, [&](int lane) {
      const auto at = static_cast<size_t>(lane);
      std::memcpy(part + at * bytes, whole + (at * count + i) * bytes, bytes);
    });
  }
}

/// The type of b with `bytes`.
Type bits_type(size_t bytes) {
  return bytes == 1 ? Type::b8 : bytes == 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::b64;
}

/// Count and bytes of the elements of a vector operand of mov.
void decode_elements(DecodeContext& context, int operand) {
  const int count = context.vector_size(operand), bytes = type_bytes(context.type());
  if ((count != 2 && count != 4) || bytes / count < 1) context.unknown("vector");
  context.result().elements = static_cast<uint8_t>(count);
  context.result().bytes = static_cast<uint8_t>(bytes / count);
}

void decode_pack(DecodeContext& context) {
  decode_elements(context, 1);
  Instruction& result = context.result();
  for (int i = 0; i < result.elements; ++i)
    result.source[static_cast<size_t>(i)] = context.source_element(1, i, bits_type(result.bytes));
  result.destination[0] = context.destination(0);
  const bool is_pair = result.elements == 2;
  result.execute = is_pair && result.bytes == 2   ? pack_two<uint16_t, uint32_t>
                   : is_pair && result.bytes == 4 ? pack_two<uint32_t, uint64_t>
                                                  : pack;
}

void decode_unpack(DecodeContext& context) {
  decode_elements(context, 0);
  Instruction& result = context.result();
  for (int i = 0; i < result.elements; ++i)
    result.destination[static_cast<size_t>(i)] = context.destination_element(0, i);
  result.source[0] = context.source(1, context.type());
  const bool is_pair = result.elements == 2;
  result.execute = is_pair && result.bytes == 2   ? unpack_two<uint16_t, uint32_t>
                   : is_pair && result.bytes == 4 ? unpack_two<uint32_t, uint64_t>
                                                  : unpack;
}

void decode_move(DecodeContext& context) {
  allow_modifiers(context, {});
  expect_operands(context, 2);
  const Type type = context.type();
  if (context.vector_size(1) > 0) return decode_pack(context);
  if (context.vector_size(0) > 0) return decode_unpack(context);
  decode_same_type(context, 1, type, type == Type::pred ? move_predicate : for_move(type_bytes(type)));
}

constexpr std::array rows = {OpcodeRow{"mov", decode_move}};

}  // namespace

std::span<const OpcodeRow> move_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
