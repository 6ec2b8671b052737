#include "tools/cuda_sim/machine/decode/statement_context.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "tools/cuda_sim/machine/access.h"
#include "tools/cuda_sim/machine/decode/special_registers.h"

namespace tessera::cuda_sim {

namespace {

using Kind = ptx::Operand::Kind;

Space space_of_modifiers(std::span<const std::string> modifiers) {
  for (const std::string& modifier : modifiers) {
    const std::string_view space = std::string_view(modifier).substr(0, modifier.find(':'));
    if (space == "global") return Space::global;
    if (space == "shared") return Space::shared;
    if (space == "local") return Space::local;
    if (space == "param") return Space::parameter;
    if (space == "const") return Space::constant;
  }
  return Space::generic;
}

/// Bits of an immediate as a value of `type`.
uint64_t immediate_bits(const ptx::Operand& operand, Type type) {
  const bool is_double = type == Type::f64 || (operand.float_bytes == 8 && type_bytes(type) == 8);
  if (operand.kind == Kind::integer) {
    if (type == Type::f32) return std::bit_cast<uint32_t>(static_cast<float>(operand.value));
    if (type == Type::f64) return std::bit_cast<uint64_t>(static_cast<double>(operand.value));
    return static_cast<uint64_t>(operand.value);
  }
  if (operand.float_bytes == 4)
    return is_double ? std::bit_cast<uint64_t>(
                           static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits))))
                     : operand.bits;
  return is_double ? operand.bits
                   : std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
}

}  // namespace

StatementContext::StatementContext(DecodeState& state, const Step& step)
    : state_(&state), step_(&step), statement_(step.statement), modifiers_(step.statement->modifiers) {
  read_space();
  read_guard();
}

// Parameters of expanded calls lie in local memory, so ld.param and st.param of them are local accesses.
void StatementContext::read_space() {
  instruction_.space = space_of_modifiers(modifiers_);
  if (instruction_.space != Space::parameter) return;
  for (const ptx::Operand& operand : statement_->operands) {
    if (operand.kind != Kind::address) continue;
    const Symbol* symbol = step_->scope->find_symbol(operand.name);
    if (symbol == nullptr || symbol->space != Space::local) continue;
    instruction_.space = Space::local;
    for (std::string& modifier : modifiers_)
      if (modifier.starts_with("param")) modifier = "local";
  }
}

void StatementContext::read_guard() {
  if (statement_->guard.empty()) return;
  const Register* guard = find_register(statement_->guard);
  if (guard == nullptr || guard->type != Type::pred) unknown("the guard is no predicate");
  instruction_.guard = guard->place;
  instruction_.guard_negated = statement_->guard_negated;
}

bool StatementContext::has(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

Type StatementContext::type(int i) const {
  std::vector<Type> types;
  for (const std::string& modifier : modifiers_)
    if (const Type type = type_named(modifier); type != Type::none) types.push_back(type);
  const int count = static_cast<int>(types.size());
  if (i < 0) i += count;
  return i < 0 || i >= count ? Type::none : types[static_cast<size_t>(i)];
}

const ptx::Operand& StatementContext::operand(int i) const {
  if (i < 0 || i >= operand_count()) unknown("operand " + std::to_string(i + 1) + " is not there");
  return statement_->operands[static_cast<size_t>(i)];
}

const ptx::Operand& StatementContext::element(int operand, int element) const {
  const ptx::Operand& vector = this->operand(operand);
  if (vector.kind != Kind::vector && element == 0) return vector;
  if (vector.kind != Kind::vector || element < 0 || element >= static_cast<int>(vector.parts.size()))
    unknown("element " + std::to_string(element + 1) + " of operand " + std::to_string(operand + 1) +
            " is not there");
  return vector.parts[static_cast<size_t>(element)];
}

const Register* StatementContext::find_register(const std::string& name) const {
  return step_->scope->find_register(name, state_->register_bytes);
}

Place StatementContext::source(int operand, Type type) {
  return source_of(this->operand(operand), type);
}

Place StatementContext::source_element(int operand, int element, Type type) {
  return source_of(this->element(operand, element), type);
}

Place StatementContext::source_of(const ptx::Operand& operand, Type type) {
  const int bytes = type_bytes(type);
  switch (operand.kind) {
    case Kind::integer:
    case Kind::floating:
      if (type == Type::pred) return state_->constants.predicate(operand.value != 0);
      if (bytes == 0) unknown("an immediate where none is known");
      return state_->constants.broadcast(immediate_bits(operand, type), bytes);
    case Kind::sink:
      return {};
    case Kind::pair:
      return source_of(operand.parts.front(), type);
    case Kind::name:
      break;
    default:
      unknown("an operand that is no value");
  }
  if (const Register* known = find_register(operand.name)) return known->place;
  if (const auto special = special_register(operand.name)) {
    if (bytes != 4) unknown("special registers are read as 32 bits");
    return *special;
  }
  if (const auto constant = constant_register(operand.name))
    return state_->constants.broadcast(*constant, bytes);
  return symbol_address(operand, bytes);
}

Place StatementContext::symbol_address(const ptx::Operand& operand, int bytes) {
  const Symbol* symbol = step_->scope->find_symbol(operand.name);
  if (symbol == nullptr) unknown("'" + operand.name + "' is no register and no variable that is known");
  if (bytes == 0) unknown("'" + operand.name + "' is no value");
  return state_->constants.broadcast(value_of(*symbol) + static_cast<uint64_t>(operand.value), bytes);
}

uint64_t StatementContext::value_of(const Symbol& symbol) const {
  return symbol.is_dynamic_shared ? shared_begin + state_->dynamic_shared_offset : symbol.address;
}

Place StatementContext::destination(int operand) {
  return destination_of(this->operand(operand));
}

Place StatementContext::destination_element(int operand, int element) {
  return destination_of(this->element(operand, element));
}

Place StatementContext::destination_of(const ptx::Operand& operand) {
  if (operand.kind == Kind::sink) return {};
  if (operand.kind == Kind::pair) return destination_of(operand.parts.front());
  const Register* known = operand.kind == Kind::name ? find_register(operand.name) : nullptr;
  if (known == nullptr) unknown("'" + operand.name + "' is no register to write");
  return known->place;
}

Place StatementContext::second_destination(int operand) {
  const ptx::Operand& pair = this->operand(operand);
  return pair.kind == Kind::pair ? destination_of(pair.parts[1]) : Place{};
}

int StatementContext::register_bytes(int operand) const {
  const ptx::Operand* one = &this->operand(operand);
  while (one->kind == Kind::vector || one->kind == Kind::pair) {
    const auto named = std::find_if(one->parts.begin(), one->parts.end(),
                                    [](const ptx::Operand& part) { return part.kind == Kind::name; });
    if (named == one->parts.end()) return 0;
    one = &*named;
  }
  if (one->kind != Kind::name) return 0;
  if (const Register* known = find_register(one->name)) return type_bytes(known->type);
  return special_register(one->name) ? 4 : 0;
}

int StatementContext::vector_size(int operand) const {
  const ptx::Operand& vector = this->operand(operand);
  return vector.kind == Kind::vector ? static_cast<int>(vector.parts.size()) : 0;
}

bool StatementContext::is_immediate(int operand) const {
  const Kind kind = this->operand(operand).kind;
  return kind == Kind::integer || kind == Kind::floating;
}

int64_t StatementContext::integer(int operand) const {
  const ptx::Operand& one = this->operand(operand);
  if (one.kind != Kind::integer) unknown("operand " + std::to_string(operand + 1) + " is no integer");
  return one.value;
}

void StatementContext::address(int operand, int index) {
  const ptx::Operand& one = this->operand(operand);
  if (one.kind != Kind::address || one.parts.size() != 1)
    unknown("operand " + std::to_string(operand + 1) + " is no address");
  Place& place = instruction_.source[static_cast<size_t>(index)];
  instruction_.immediate = one.value;
  if (one.parts[0].kind == Kind::integer) {
    place = state_->constants.broadcast(static_cast<uint64_t>(one.parts[0].value), 8);
    instruction_.immediate = 0;
  } else if (const Register* known = find_register(one.name)) {
    place = known->place;
  } else {
    ptx::Operand base = one.parts[0];
    base.value = 0;
    place = symbol_address(base, 8);
  }
}

int StatementContext::address_bytes(int operand) const {
  const ptx::Operand& one = this->operand(operand);
  if (one.kind != Kind::address) unknown("operand " + std::to_string(operand + 1) + " is no address");
  const Register* known = find_register(one.name);
  return known == nullptr ? 8 : type_bytes(known->type);
}

uint32_t StatementContext::local_offset(const ptx::Operand& argument) const {
  const Symbol* symbol = step_->scope->find_symbol(argument.name);
  if (symbol == nullptr || symbol->space != Space::local)
    unknown("only .param variables are known as arguments");
  return static_cast<uint32_t>(symbol->address);
}

void StatementContext::unknown(std::string_view what) const {
  refuse(*statement_, state_->program->name, what);
}

}  // namespace tessera::cuda_sim
