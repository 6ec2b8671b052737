// PTX ISA, "Data Movement and Conversion Instructions": cvt; cvt.pack is not known.
#include "tools/cuda_sim/instructions/convert/convert.h"

#include <array>

#include "tools/cuda_sim/instructions/opcode_rows.h"
#include "tools/cuda_sim/instructions/rounding.h"

namespace tessera::cuda_sim {

namespace {

Execute choose(const DecodeContext& context, Type to, Type from) {
  using namespace conversion;
  if (to == Type::f16 || to == Type::bf16 || to == Type::tf32) return to_small_float(context, to, from);
  if (to == Type::f32 || to == Type::f64) return to_float(context, to, from);
  if (!is_integer(to)) return nullptr;
  if (is_integer(from)) return between_integers(to, from, context.has("sat"));
  return to_integer(to, from, integral_rounding(context), context.has("ftz"));
}

/// Where an immediate or special register stands, its width is the type's.
int width(const DecodeContext& context, int operand, Type type) {
  const int bytes = context.register_bytes(operand);
  return bytes != 0 ? bytes : type_bytes(type);
}

void decode_convert(DecodeContext& context) {
  if (conversion::is_packed_form(context)) return conversion::decode_packed(context);
  allow_modifiers(context, {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu",
                            "satfinite"});
  expect_operands(context, 2);
  const Type to = context.type(0), from = context.type(1);
  if (to == Type::none || from == Type::none) context.unknown("type");
  set_execute(context, choose(context, to, from));
  Instruction& result = context.result();
  result.type = to;
  result.destination[0] = context.destination(0);
  result.source[0] = context.source(1, from);
  result.flags = {static_cast<uint8_t>(rounding_of(context)), static_cast<uint8_t>(width(context, 1, from)),
                  static_cast<uint8_t>(width(context, 0, to))};
  if (to == Type::f16 || to == Type::bf16 || to == Type::tf32) {
    result.elements = static_cast<uint8_t>(conversion::integral_rounding(context));
    result.immediate = conversion::small_float_flags(context);
  }
}

constexpr std::array rows = {OpcodeRow{"cvt", decode_convert}};

}  // namespace

std::span<const OpcodeRow> convert_rows() {
  return rows;
}

}  // namespace tessera::cuda_sim
