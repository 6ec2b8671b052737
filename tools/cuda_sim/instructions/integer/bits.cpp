// PTX ISA, "Integer Arithmetic Instructions": popc, clz, bfind, fns, brev, bfe, bfi, bmsk, szext.
#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// d = op(a): 32 bits, of an operand of 32 or 64.
template <class T, auto op>
void count_bits(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  write_lanes<uint32_t>(warp, instruction.destination[0],
                        [=](int lane) { return static_cast<uint32_t>(op(a[lane])); });
}

constexpr auto population = [](auto a) { return std::popcount(a); };
constexpr auto leading_zeros = [](auto a) { return std::countl_zero(a); };

template <auto op>
void decode_count(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  if (type != Type::b32 && type != Type::b64) context.unknown("type");
  decode_same_type(context, 1, type, type == Type::b64 ? count_bits<uint64_t, op> : count_bits<uint32_t, op>);
}

/// "bfind": the position of the most significant bit that is no sign bit; all ones where there is none.
/// .shiftamt: the shift to the left that brings it to the top.
template <bool is_shift>
constexpr auto find_bit = []<class T>(T a) {
  using Bits = std::make_unsigned_t<T>;
  const auto bits = static_cast<Bits>(std::is_signed_v<T> && a < 0 ? ~a : a);
  if (bits == 0) return ~0u;
  const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
  return is_shift ? zeros : static_cast<uint32_t>(8 * sizeof(T)) - 1 - zeros;
};

void decode_find(DecodeContext& context) {
  allow_modifiers(context, {"shiftamt"});
  const Type type = context.type();
  const bool is_shift = context.has("shiftamt");
  decode_same_type(context, 1, type, for_integer(type, [is_shift]<class T>(T) -> Execute {
                     return is_shift ? count_bits<T, find_bit<true>> : count_bits<T, find_bit<false>>;
                   }));
}

constexpr auto reverse = []<class T>(T a) {
  T result = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) result |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
  return result;
};

void decode_reverse(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 1, type, type == Type::b64 ? unary<uint64_t, reverse> : unary<uint32_t, reverse>);
}

/// "bfe": len bits from pos. The sign is bit min(pos + len - 1, msb) of a; with len 0 the result is 0.
template <class T>
void extract_field(Warp& warp, const Instruction& instruction) {
  using Bits = std::make_unsigned_t<T>;
  const Bits* const a = warp.values<Bits>(instruction.source[0]);
  const auto* const position = warp.values<uint32_t>(instruction.source[1]);
  const auto* const length = warp.values<uint32_t>(instruction.source[2]);
  constexpr uint32_t width = 8 * sizeof(T);
  write_lanes<Bits>(warp, instruction.destination[0], [=](int lane) {
    const uint32_t at = position[lane] & 0xff, count = length[lane] & 0xff;
    const uint32_t sign_at = std::min(at + (count == 0 ? 0 : count - 1), width - 1);
    const bool is_negative = std::is_signed_v<T> && count != 0 && (a[lane] >> sign_at & 1) != 0;
    const Bits shifted = at < width ? static_cast<Bits>(a[lane] >> (at & (width - 1))) : Bits{0};
    // How many bits of the field lie inside a: beyond them is the sign.
    const uint32_t inside = at < width ? std::min(count, width - at) : 0;
    const Bits mask = inside >= width ? ~Bits{0} : static_cast<Bits>((Bits{1} << inside) - 1);
    return static_cast<Bits>((shifted & mask) | (is_negative ? ~mask : Bits{0}));
  });
}

void decode_extract(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 3, type,
                   for_integer(type, []<class T>(T) -> Execute { return extract_field<T>; }));
  context.result().source[1] = context.source(2, Type::u32);
  context.result().source[2] = context.source(3, Type::u32);
}

/// "bfi d, a, b, pos, len": b with the lowest len bits of a at pos.
template <class Bits>
void insert_field(Warp& warp, const Instruction& instruction) {
  const Bits* const a = warp.values<Bits>(instruction.source[0]);
  const Bits* const b = warp.values<Bits>(instruction.source[1]);
  const auto* const position = warp.values<uint32_t>(instruction.source[2]);
  const auto* const length = warp.values<uint32_t>(instruction.source[3]);
  constexpr uint32_t width = 8 * sizeof(Bits);
  write_lanes<Bits>(warp, instruction.destination[0], [=](int lane) {
    const uint32_t at = position[lane] & 0xff, count = length[lane] & 0xff;
    if (at >= width) return b[lane];
    const Bits ones = count >= width ? ~Bits{0} : static_cast<Bits>((Bits{1} << count) - 1);
    const Bits mask = static_cast<Bits>(ones << at);
    return static_cast<Bits>((b[lane] & ~mask) | (static_cast<Bits>(a[lane] << at) & mask));
  });
}

void decode_insert(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  if (type != Type::b32 && type != Type::b64) context.unknown("type");
  decode_same_type(context, 4, type, type == Type::b64 ? insert_field<uint64_t> : insert_field<uint32_t>);
  context.result().source[2] = context.source(3, Type::u32);
  context.result().source[3] = context.source(4, Type::u32);
}

/// "bmsk": `width` ones from `position`. .clamp takes both as at most 32, .wrap modulo 32.
template <bool wraps>
constexpr auto bit_mask = [](uint32_t position, uint32_t width) {
  const uint64_t at = wraps ? position & 31 : std::min(position, 32u);
  const uint64_t count = wraps ? width & 31 : std::min(width, 32u);
  return static_cast<uint32_t>(((uint64_t{1} << count) - 1) << at);
};

void decode_bit_mask(DecodeContext& context) {
  allow_modifiers(context, {"clamp", "wrap"});
  if (context.type() != Type::b32) context.unknown("type");
  decode_same_type(
      context, 2, Type::b32,
      context.has("wrap") ? binary<uint32_t, bit_mask<true>> : binary<uint32_t, bit_mask<false>>);
}

/// "szext": the lowest `count` bits of a, extended by sign or zero. .clamp takes a count as at most 32, .wrap
/// modulo 32.
template <class T, bool wraps>
constexpr auto extend = [](T a, T count) {
  const auto bits = static_cast<uint32_t>(count);
  const uint32_t kept = wraps ? bits & 31 : std::min(bits, 32u);
  const auto wide = static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(
      static_cast<uint64_t>(static_cast<uint32_t>(a)) << (63 - kept) << 1);
  return kept == 0 ? T{0} : static_cast<T>(wide >> (63 - kept) >> 1);
};

void decode_extend(DecodeContext& context) {
  allow_modifiers(context, {"clamp", "wrap"});
  const bool wraps = context.has("wrap");
  const Type type = context.type();
  decode_same_type(
      context, 2, type,
      type == Type::s32
          ? (wraps ? binary<int32_t, extend<int32_t, true>> : binary<int32_t, extend<int32_t, false>>)
      : type == Type::u32
          ? (wraps ? binary<uint32_t, extend<uint32_t, true>> : binary<uint32_t, extend<uint32_t, false>>)
          : nullptr);
}

/// "fns": the position of the n-th set bit of `mask` from bit `base` on, upwards for n > 0, downwards for
/// n < 0; `base` itself for n = 0 where it is set. All ones where there is none.
constexpr auto find_nth_set = [](uint32_t mask, uint32_t base, uint32_t n) {
  const auto count = static_cast<int32_t>(n);
  const int step = count < 0 ? -1 : 1;
  int64_t left = count == 0 ? 1 : std::abs(int64_t{count});
  for (int64_t at = base; at >= 0 && at < 32; at += step) {
    if ((mask >> at & 1) != 0 && --left == 0) return static_cast<uint32_t>(at);
    if (count == 0) break;
  }
  return ~0u;
};

void decode_find_nth(DecodeContext& context) {
  allow_modifiers(context, {});
  decode_same_type(context, 3, Type::b32, ternary<uint32_t, find_nth_set>);
}

constexpr std::array rows = {
    OpcodeRow{"popc", decode_count<population>},
    OpcodeRow{"clz", decode_count<leading_zeros>},
    OpcodeRow{"bfind", decode_find},
    OpcodeRow{"brev", decode_reverse},
    OpcodeRow{"bfe", decode_extract},
    OpcodeRow{"bfi", decode_insert},
    OpcodeRow{"bmsk", decode_bit_mask},
    OpcodeRow{"szext", decode_extend},
    OpcodeRow{"fns", decode_find_nth},
};

}  // namespace

std::span<const OpcodeRow> bit_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
