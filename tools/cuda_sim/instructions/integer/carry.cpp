// PTX ISA, "Extended-Precision Integer Arithmetic Instructions": add.cc, addc, sub.cc, subc, mad.cc, madc.
// The carry flag is one bit a lane of the warp.
#include <array>

#include "tools/cuda_sim/instructions/decoding.h"
#include "tools/cuda_sim/instructions/integer/integer.h"
#include "tools/cuda_sim/instructions/lanes.h"
#include "tools/cuda_sim/instructions/opcode_rows.h"

namespace tessera::cuda_sim::integer {

namespace {

/// Adds with a carry in, or subtracts with a borrow in; writes what is carried out where asked.
template <class T, bool subtracts, bool reads_carry, bool writes_carry, class Left, class Right>
void sum(Warp& warp, Place destination, Left left, Right right) {
  const LaneMask carry = warp.carry;
  const auto carry_in = [=](int lane) { return static_cast<T>(reads_carry ? carry >> lane & 1 : 0); };
  if (writes_carry) {
    const LaneMask out = lanes_where([=](int lane) {
      const T a = left(lane), b = right(lane), in = carry_in(lane);
      if constexpr (subtracts) return a < b || static_cast<T>(a - b) < in;
      const T partial = static_cast<T>(a + b);
      return partial < a || static_cast<T>(partial + in) < partial;
    });
    warp.carry = (carry & ~warp.active()) | (out & warp.active());
  }
  write_lanes<T>(warp, destination, [=](int lane) {
    const T a = left(lane), b = right(lane), in = carry_in(lane);
    return subtracts ? static_cast<T>(a - b - in) : static_cast<T>(a + b + in);
  });
}

template <class T, bool subtracts, bool reads_carry, bool writes_carry>
void execute_sum(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  sum<T, subtracts, reads_carry, writes_carry>(
      warp, instruction.destination[0], [=](int lane) { return a[lane]; }, [=](int lane) { return b[lane]; });
}

/// The upper or the lower half of a * b, plus c.
template <class T, bool is_high, bool reads_carry, bool writes_carry>
void execute_multiply_add(Warp& warp, const Instruction& instruction) {
  const T* const a = warp.values<T>(instruction.source[0]);
  const T* const b = warp.values<T>(instruction.source[1]);
  const T* const c = warp.values<T>(instruction.source[2]);
  using Bits = std::make_unsigned_t<T>;
  sum<Bits, false, reads_carry, writes_carry>(
      warp, instruction.destination[0],
      [=](int lane) {
        return static_cast<Bits>(is_high ? multiply_high(a[lane], b[lane]) : multiply_low(a[lane], b[lane]));
      },
      [=](int lane) { return static_cast<Bits>(c[lane]); });
}

template <bool subtracts, bool reads_carry, bool writes_carry>
void decode_sum(DecodeContext& context) {
  allow_modifiers(context, {"cc"});
  const int bytes = type_bytes(context.type());
  if (bytes < 4) context.unknown("type");
  decode_same_type(context, 2, context.type(),
                   bytes == 8 ? execute_sum<uint64_t, subtracts, reads_carry, writes_carry>
                              : execute_sum<uint32_t, subtracts, reads_carry, writes_carry>);
}

template <bool reads_carry, bool writes_carry>
void decode_multiply_add_with_carry(DecodeContext& context) {
  allow_modifiers(context, {"cc", "lo", "hi"});
  const Type type = context.type();
  const bool is_high = context.has("hi");
  if (type_bytes(type) < 4) context.unknown("type");
  decode_same_type(context, 3, type, for_integer(type, [is_high]<class T>(T) -> Execute {
                     return is_high ? execute_multiply_add<T, true, reads_carry, writes_carry>
                                    : execute_multiply_add<T, false, reads_carry, writes_carry>;
                   }));
}

void decode_add_with_carry(DecodeContext& context) {
  context.has("cc") ? decode_sum<false, true, true>(context) : decode_sum<false, true, false>(context);
}

void decode_subtract_with_borrow(DecodeContext& context) {
  context.has("cc") ? decode_sum<true, true, true>(context) : decode_sum<true, true, false>(context);
}

void decode_madc(DecodeContext& context) {
  context.has("cc") ? decode_multiply_add_with_carry<true, true>(context)
                    : decode_multiply_add_with_carry<true, false>(context);
}

constexpr std::array rows = {
    OpcodeRow{"addc", decode_add_with_carry},
    OpcodeRow{"subc", decode_subtract_with_borrow},
    OpcodeRow{"madc", decode_madc},
};

}  // namespace

void decode_add_carry_out(DecodeContext& context) {
  decode_sum<false, false, true>(context);
}

void decode_subtract_carry_out(DecodeContext& context) {
  decode_sum<true, false, true>(context);
}

void decode_multiply_add_carry_out(DecodeContext& context) {
  decode_multiply_add_with_carry<false, true>(context);
}

}  // namespace tessera::cuda_sim::integer

namespace tessera::cuda_sim {

std::span<const OpcodeRow> carry_rows() {
  return integer::rows;
}

}  // namespace tessera::cuda_sim
