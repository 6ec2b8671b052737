// PTX ISA, "Comparison and Selection Instructions": set, setp, selp, slct; the half-precision forms too.
#include "tools/cuda_sim/instructions/data/comparison.h"

#include <array>

#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim {

namespace {

/// flags[0] of set and setp: how a predicate is combined with the comparison.
enum class Combination : uint8_t { none, with_and, with_or, with_xor };

LaneMask combine(LaneMask compared, LaneMask c, Combination combination) {
  switch (combination) {
    case Combination::with_and:
      return compared & c;
    case Combination::with_or:
      return compared | c;
    case Combination::with_xor:
      return compared ^ c;
    default:
      return compared;
  }
}

LaneMask combine(Warp& warp, const Instruction& instruction, LaneMask compared) {
  const auto combination = static_cast<Combination>(instruction.flags[0]);
  if (combination == Combination::none) return compared;
  return combine(compared, read_predicate(warp, instruction.source[2], instruction.source_negated),
                 combination);
}

/// The operands a, b and, with a combination, {!}c.
void decode_operands(DecodeContext& context, Type type) {
  allow_modifiers(context, {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi", "hs",  "equ",
                            "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "and", "or", "xor", "ftz"});
  Instruction& result = context.result();
  result.type = type;
  result.source[0] = context.source(1, type);
  result.source[1] = context.source(2, type);
  const Combination combination = context.has("and")   ? Combination::with_and
                                  : context.has("or")  ? Combination::with_or
                                  : context.has("xor") ? Combination::with_xor
                                                       : Combination::none;
  expect_operands(context, combination == Combination::none ? 3 : 4);
  result.flags[0] = static_cast<uint8_t>(combination);
  if (combination == Combination::none) return;
  result.source[2] = context.source(3, Type::pred);
  result.source_negated = context.is_negated(3);
}

/// setp p|q, a, b, c: q is of the comparison's opposite.
template <class Reader, auto op>
void execute_setp(Warp& warp, const Instruction& instruction) {
  const LaneMask compared = compare<Reader, op>(warp, instruction, 0);
  const LaneMask p = combine(warp, instruction, compared);
  if (!instruction.destination[1].is_absent())
    write_predicate(warp, instruction.destination[1], combine(warp, instruction, ~compared));
  write_predicate(warp, instruction.destination[0], p);
}

/// setp of f16x2 and bf16x2: p and q are of the lower and the upper halves.
template <class Reader, auto op>
void execute_packed_setp(Warp& warp, const Instruction& instruction) {
  const LaneMask lower = combine(warp, instruction, compare<Reader, op>(warp, instruction, 0));
  const LaneMask upper = combine(warp, instruction, compare<Reader, op>(warp, instruction, 1));
  write_predicate(warp, instruction.destination[0], lower);
  write_predicate(warp, instruction.destination[1], upper);
}

void decode_setp(DecodeContext& context) {
  const Type type = context.type();
  decode_operands(context, type);
  const Execute execute = for_comparison(
      context, type, [&]<auto op>()->Execute {
        return for_reader(type, context.has("ftz"), [&]<class Reader>() -> Execute {
          if constexpr (sizeof(typename Reader::Register) == 4)
            if (is_packed(type)) return execute_packed_setp<Reader, op>;
          return execute_setp<Reader, op>;
        });
      });
  set_execute(context, execute);
  context.result().destination[0] = context.destination(0);
  context.result().destination[1] = context.second_destination(0);
}

/// set: `immediate` where the condition holds, zeros elsewhere.
template <class D, class Reader, auto op>
void execute_set(Warp& warp, const Instruction& instruction) {
  const LaneMask holds = combine(warp, instruction, compare<Reader, op>(warp, instruction, 0));
  const auto value = static_cast<D>(instruction.immediate);
  write_lanes<D>(warp, instruction.destination[0],
                 [=](int lane) { return (holds >> lane & 1) != 0 ? value : D{0}; });
}

template <class Reader, auto op>
void execute_packed_set(Warp& warp, const Instruction& instruction) {
  const LaneMask lower = combine(warp, instruction, compare<Reader, op>(warp, instruction, 0));
  const LaneMask upper = combine(warp, instruction, compare<Reader, op>(warp, instruction, 1));
  const auto value = static_cast<uint32_t>(instruction.immediate);
  write_lanes<uint32_t>(warp, instruction.destination[0], [=](int lane) {
    return ((lower >> lane & 1) != 0 ? value : 0) | ((upper >> lane & 1) != 0 ? value << 16 : 0);
  });
}

/// What set writes where its condition holds: 1 of a floating-point type, all ones of an integer.
int64_t true_value(DecodeContext& context, Type to, Type from) {
  if (is_packed(from)) return to == Type::f16x2 ? 0x3c00 : to == Type::bf16x2 ? 0x3f80 : 0xffff;
  switch (to) {
    case Type::f32:
      return 0x3f800000;
    case Type::f16:
      return 0x3c00;
    case Type::bf16:
      return 0x3f80;
    case Type::u16:
    case Type::s16:
    case Type::u32:
    case Type::s32:
      return -1;
    default:
      context.unknown("type");
      return 0;
  }
}

void decode_set(DecodeContext& context) {
  const Type to = context.type(0), from = context.type(1);
  decode_operands(context, from);
  const Execute execute = for_comparison(
      context, from, [&]<auto op>()->Execute {
        return for_reader(from, context.has("ftz"), [&]<class Reader>() -> Execute {
          if constexpr (sizeof(typename Reader::Register) == 4)
            if (is_packed(from)) return execute_packed_set<Reader, op>;
          return type_bytes(to) == 2 ? execute_set<uint16_t, Reader, op> : execute_set<uint32_t, Reader, op>;
        });
      });
  set_execute(context, execute);
  context.result().immediate = true_value(context, to, from);
  context.result().destination[0] = context.destination(0);
}

/// selp d, a, b, p.
template <class T>
void execute_selp(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  const LaneMask p = read_predicate(warp, instruction.source[2], instruction.source_negated);
  write_lanes<T>(warp, instruction.destination[0],
                 [=](int lane) { return (p >> lane & 1) != 0 ? a[lane] : b[lane]; });
}

void decode_selp(DecodeContext& context) {
  allow_modifiers(context, {});
  const Type type = context.type();
  decode_same_type(context, 3, type,
                   for_bits(type_bytes(type), []<class T>(T) -> Execute { return execute_selp<T>; }));
  context.result().source[2] = context.source(3, Type::pred);
  context.result().source_negated = context.is_negated(3);
}

/// slct d, a, b, c: a where c >= 0, b elsewhere (c is NaN too).
template <class T, class C, bool flushes>
void execute_slct(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  const C* const c = warp.values<C>(instruction.source[2]);
  write_lanes<T>(warp, instruction.destination[0], [=](int lane) {
    if constexpr (flushes)
      return flush(c[lane]) >= 0 ? a[lane] : b[lane];
    else
      return c[lane] >= 0 ? a[lane] : b[lane];
  });
}

void decode_slct(DecodeContext& context) {
  allow_modifiers(context, {"ftz"});
  const Type type = context.type(0), condition = context.type(1);
  if (condition != Type::s32 && condition != Type::f32) context.unknown("type");
  const bool flushes = context.has("ftz");
  decode_same_type(context, 3, type, for_bits(type_bytes(type), [=]<class T>(T) -> Execute {
                     return condition == Type::s32 ? execute_slct<T, int32_t, false>
                            : flushes              ? execute_slct<T, float, true>
                                                   : execute_slct<T, float, false>;
                   }));
  context.result().source[2] = context.source(3, condition);
}

constexpr std::array rows = {
    OpcodeRow{"setp", decode_setp},
    OpcodeRow{"set", decode_set},
    OpcodeRow{"selp", decode_selp},
    OpcodeRow{"slct", decode_slct},
};

}  // namespace

std::span<const OpcodeRow> comparison_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
