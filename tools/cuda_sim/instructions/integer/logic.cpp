// PTX ISA, "Logic and Shift Instructions": and, or, xor, not, cnot, lop3, shf, shl, shr; and prmt of "Data
// Movement".
#include <algorithm>
#include <array>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

constexpr auto bit_and = [](auto a, auto b) { return a & b; };
constexpr auto bit_or = [](auto a, auto b) { return a | b; };
constexpr auto bit_xor = [](auto a, auto b) { return a ^ b; };
constexpr auto bit_not = [](auto a) { return ~a; };
constexpr auto is_zero = [](auto a) { return a == 0 ? 1 : 0; };

template <auto op>
void combine_predicates(Warp& warp, const Instruction& instruction) {
  write_predicate(warp, instruction.destination[0],
                  op(warp.predicate(instruction.source[0]), warp.predicate(instruction.source[1])));
}

template <auto op>
void decode_logic(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 2, type,
                   type == Type::pred
                       ? combine_predicates<op>
                       : for_bits(type_bytes(type), []<class T>(T) -> Execute { return binary<T, op>; }));
}

void invert_predicate(Warp& warp, const Instruction& instruction) {
  write_predicate(warp, instruction.destination[0], ~warp.predicate(instruction.source[0]));
}

void decode_not(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 1, type,
                   type == Type::pred
                       ? invert_predicate
                       : for_bits(type_bytes(type), []<class T>(T) -> Execute { return unary<T, bit_not>; }));
}

/// "cnot": 1 of a zero, else 0.
void decode_logical_not(DecodeContext& context) {
  allow_modifiers(context, {});
  const int bytes = type_bytes(context.type());
  decode_same_type(context, 1, context.type(),
                   for_bits(bytes, []<class T>(T) -> Execute { return unary<T, is_zero>; }));
}

/// "lop3": bit 4a + 2b + c of the table `immLut` for each three bits.
void execute_lop3(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint32_t>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  const auto* const c = warp.values<uint32_t>(instruction.source[2]);
  std::array<uint32_t, 8> chosen{};  // all ones where the table has a 1
  for (uint32_t i = 0; i < 8; ++i) chosen[i] = (instruction.immediate >> i & 1) != 0 ? ~0u : 0;
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int lane) {
    const uint32_t x = a[lane], y = b[lane], z = c[lane];
    const uint32_t with_x =
        (y & z & chosen[7]) | (y & ~z & chosen[6]) | (~y & z & chosen[5]) | (~y & ~z & chosen[4]);
    const uint32_t without =
        (y & z & chosen[3]) | (y & ~z & chosen[2]) | (~y & z & chosen[1]) | (~y & ~z & chosen[0]);
    return (x & with_x) | (~x & without);
  });
}

void decode_lop3(DecodeContext& context) {
  allow_modifiers(context, {});  // .and and .or with a predicate are not known
  if (context.type() != Type::b32) context.unknown("type");
  expect_operands(context, 5);
  Instruction& result = context.result();
  result.execute = execute_lop3;
  result.destination[0] = context.destination(0);
  for (int i = 0; i < 3; ++i) result.source[static_cast<size_t>(i)] = context.source(i + 1, Type::b32);
  result.immediate = context.integer(4);
}

/// "Shift amounts greater than the register width N are clamped to N."
template <class T>
void shift_left(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  constexpr uint32_t width = 8 * sizeof(T);
  write_lanes<T>(warp, instruction.destination[0], [=](int lane) {
    const T shifted = static_cast<T>(a[lane] << (b[lane] & (width - 1)));
    return b[lane] < width ? shifted : T{0};
  });
}

/// Signed types shift the sign in.
template <class T>
void shift_right(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  constexpr uint32_t width = 8 * sizeof(T);
  write_lanes<T>(warp, instruction.destination[0], [=](int lane) {
    const T shifted = static_cast<T>(a[lane] >> (b[lane] & (width - 1)));
    return b[lane] < width ? shifted : static_cast<T>(a[lane] < 0 ? -1 : 0);
  });
}

void decode_shift_left(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 2, type,
                   for_bits(type_bytes(type), []<class T>(T) -> Execute { return shift_left<T>; }));
  context.result().source[1] = context.source(2, Type::u32);
}

void decode_shift_right(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 2, type, for_integer(type, []<class T>(T) -> Execute { return shift_right<T>; }));
  context.result().source[1] = context.source(2, Type::u32);
}

/// "shf": a window of 32 bits into the 64 bits b:a. .wrap takes the amount modulo 32, .clamp at most 32.
template <bool to_left, bool wraps>
void funnel_shift(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint32_t>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  const auto* const c = warp.values<uint32_t>(instruction.source[2]);
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int lane) {
    const uint64_t both = uint64_t{b[lane]} << 32 | a[lane];
    const uint32_t amount = wraps ? c[lane] & 31 : std::min(c[lane], 32u);
    return static_cast<uint32_t>(to_left ? both >> (32 - amount) : both >> amount);
  });
}

void decode_funnel_shift(DecodeContext& context) {
  allow_modifiers(context, {"l", "r", "wrap", "clamp"});
  if (context.type() != Type::b32) context.unknown("type");
  const bool wraps = context.has("wrap");
  decode_same_type(context, 3, Type::b32,
                   context.has("l") ? (wraps ? funnel_shift<true, true> : funnel_shift<true, false>)
                                    : (wraps ? funnel_shift<false, true> : funnel_shift<false, false>));
}

/// Which four of the bytes b:a the modes of "prmt" take, as a selector of the plain form.
constexpr std::array<std::array<uint32_t, 4>, 6> permutations = {{
    {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
    {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
    {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
    {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
    {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
    {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
}};
constexpr std::array<std::string_view, 6> permutation_names = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};

/// One byte of the bytes b:a. Bit 3 of a choice: eight copies of the byte's sign.
inline __attribute__((always_inline)) uint32_t choose_byte(uint32_t a, uint32_t b, uint32_t choice) {
  const uint32_t shift = 8 * (choice & 3), of_a = a >> shift, of_b = b >> shift;
  const uint32_t byte = ((choice & 4) != 0 ? of_b : of_a) & 0xff;
  const uint32_t sign = (byte >> 7) * 0xff;
  return (choice & 8) != 0 ? sign : byte;
}

inline __attribute__((always_inline)) uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  return choose_byte(a, b, selector) | choose_byte(a, b, selector >> 4) << 8 |
         choose_byte(a, b, selector >> 8) << 16 | choose_byte(a, b, selector >> 12) << 24;
}
constexpr auto permute_plainly = [](uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c); };

/// flags[0]: an index of `permutations`.
void permute_by_mode(Warp& warp, const Instruction& instruction) {
  const auto* const a = warp.values<uint32_t>(instruction.source[0]);
  const auto* const b = warp.values<uint32_t>(instruction.source[1]);
  const auto* const c = warp.values<uint32_t>(instruction.source[2]);
  const std::array<uint32_t, 4>& selectors = permutations[instruction.flags[0]];
  write_lanes<uint32_t>(warp, instruction.destination[0],
                        [&](int lane) { return permute(a[lane], b[lane], selectors[c[lane] & 3]); });
}

void decode_permute(DecodeContext& context) {
  allow_modifiers(context, {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  if (context.type() != Type::b32) context.unknown("type");
  decode_same_type(context, 3, Type::b32, ternary<uint32_t, permute_plainly>);
  for (size_t i = 0; i < permutation_names.size(); ++i)
    if (context.has(permutation_names[i])) {
      context.result().execute = permute_by_mode;
      context.result().flags[0] = static_cast<uint8_t>(i);
    }
}

constexpr std::array rows = {
    OpcodeRow{"and", decode_logic<bit_and>}, OpcodeRow{"or", decode_logic<bit_or>},
    OpcodeRow{"xor", decode_logic<bit_xor>}, OpcodeRow{"not", decode_not},
    OpcodeRow{"cnot", decode_logical_not},   OpcodeRow{"lop3", decode_lop3},
    OpcodeRow{"shl", decode_shift_left},     OpcodeRow{"shr", decode_shift_right},
    OpcodeRow{"shf", decode_funnel_shift},   OpcodeRow{"prmt", decode_permute},
};

}  // namespace

std::span<const OpcodeRow> logic_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
