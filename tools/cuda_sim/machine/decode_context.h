// What an instruction's decoder sees: opcode, modifiers and operands of one PTX instruction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/cuda_sim/machine/program.h"

namespace tessera::cuda_sim {

/// One PTX instruction on its way to an `Instruction`. A decoder reads modifiers, asks for places, fills
/// `result()`. Whatever it does not know it refuses with `unknown()`, which names the instruction and its
/// line.
class DecodeContext {
 public:
  virtual ~DecodeContext() = default;

  virtual Instruction& result() = 0;
  virtual const std::string& opcode() const = 0;  ///< "cvt" of cvt.rn.f32.f64
  /// Whether a modifier is there: has("wide"), has("rn").
  virtual bool has(std::string_view modifier) const = 0;
  virtual std::span<const std::string> modifiers() const = 0;
  /// The i-th modifier that is a type, from the left; Type::none behind the last. Negative: from the right.
  virtual Type type(int i = 0) const = 0;

  virtual int operand_count() const = 0;
  /// A register, an immediate (converted to `type`, one value per lane), a special register or a symbol's
  /// address.
  virtual Place source(int operand, Type type) = 0;
  /// A register to write; absent for the sink `_`.
  virtual Place destination(int operand) = 0;
  /// Bytes of an operand's register: cvt and ld may fill a wider one than their type. 0 for an immediate.
  virtual int register_bytes(int operand) const = 0;
  /// Elements of {a, b, ...}; 0 for an operand without braces.
  virtual int vector_size(int operand) const = 0;
  virtual Place source_element(int operand, int element, Type type) = 0;
  virtual Place destination_element(int operand, int element) = 0;
  /// The second destination of a|b (setp, shfl); absent where there is none.
  virtual Place second_destination(int operand) = 0;
  /// Whether a predicate operand is written !p.
  virtual bool is_negated(int operand) const = 0;
  virtual bool is_immediate(int operand) const = 0;
  virtual int64_t integer(int operand) const = 0;  ///< of an immediate
  /// An address operand [register + offset] or [symbol + offset]: its base place (8 bytes a lane in global
  /// and generic space, else what `register_bytes` says) goes into source[index], its offset into
  /// `immediate`, the state space of the modifiers into `space`.
  virtual void address(int operand, int index) = 0;
  virtual int address_bytes(int operand) const = 0;  ///< 4 or 8: of the base

  /// Throws: this form of the instruction is not known. `what` says which part.
  [[noreturn]] virtual void unknown(std::string_view what) const = 0;
};

using Decode = void (*)(DecodeContext&);

/// One opcode and its decoder.
struct OpcodeRow {
  std::string_view opcode;
  Decode decode;
};

/// All opcodes, sorted. Each file of instructions/ exports one span of rows; opcode_table.cpp joins them.
const OpcodeRow* find_opcode(std::string_view opcode);

}  // namespace tessera::cuda_sim
