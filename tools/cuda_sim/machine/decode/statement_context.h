// What a decoder sees of one statement: names looked up, immediates made constants.
#pragma once

#include <string>
#include <vector>

#include "tools/cuda_sim/machine/decode/constant_bank.h"
#include "tools/cuda_sim/machine/decode/expansion.h"
#include "tools/cuda_sim/machine/decode_context.h"

namespace tessera::cuda_sim {

/// What grows while a kernel is decoded.
struct DecodeState {
  Program* program = nullptr;
  ConstantBank constants;
  uint32_t register_bytes = 0;
  uint32_t dynamic_shared_offset = 0;
};

class StatementContext final : public DecodeContext {
 public:
  StatementContext(DecodeState& state, const Step& step);

  Instruction& result() override { return instruction_; }
  const std::string& opcode() const override { return statement_->opcode; }
  bool has(std::string_view modifier) const override;
  std::span<const std::string> modifiers() const override { return modifiers_; }
  Type type(int i) const override;

  int operand_count() const override { return static_cast<int>(statement_->operands.size()); }
  Place source(int operand, Type type) override;
  Place destination(int operand) override;
  int register_bytes(int operand) const override;
  int vector_size(int operand) const override;
  Place source_element(int operand, int element, Type type) override;
  Place destination_element(int operand, int element) override;
  Place second_destination(int operand) override;
  bool is_negated(int operand) const override { return this->operand(operand).is_negated; }
  bool is_immediate(int operand) const override;
  int64_t integer(int operand) const override;
  void address(int operand, int index) override;
  int address_bytes(int operand) const override;
  [[noreturn]] void unknown(std::string_view what) const override;

  // For the machine's own instructions.
  const ptx::Statement& statement() const { return *statement_; }
  const Step& step() const { return *step_; }
  DecodeState& state() { return *state_; }
  const ptx::Operand& operand(int i) const;
  /// The offset of a .param variable of a call, in the thread's local memory.
  uint32_t local_offset(const ptx::Operand& argument) const;

 private:
  Place source_of(const ptx::Operand& operand, Type type);
  Place destination_of(const ptx::Operand& operand);
  const ptx::Operand& element(int operand, int element) const;
  const Register* find_register(const std::string& name) const;
  Place symbol_address(const ptx::Operand& operand, int bytes);
  uint64_t value_of(const Symbol& symbol) const;
  void read_guard();
  void read_space();

  DecodeState* state_;
  const Step* step_;
  const ptx::Statement* statement_;
  std::vector<std::string> modifiers_;  ///< .param of a call's parameters reads .local
  Instruction instruction_;
};

}  // namespace tessera::cuda_sim
