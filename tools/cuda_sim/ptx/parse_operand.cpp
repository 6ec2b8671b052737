// Operands of instructions (PTX ISA, "Instruction Operands" and "Constants").
#include <stdexcept>

#include "tools/cuda_sim/ptx/parser.h"

namespace tessera::cuda_sim::ptx {

namespace {

bool is_float_constant(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return false;
  const char kind = text[1];
  return ((kind == 'f' || kind == 'F') && text.size() == 10) ||
         ((kind == 'd' || kind == 'D') && text.size() == 18);
}

}  // namespace

uint64_t float_bits(std::string_view text) {
  return std::stoull(std::string(text.substr(2)), nullptr, 16);
}

Operand Parser::parse_operand() {
  Operand operand = parse_simple_operand();
  if (!lexer_.accept("|")) return operand;
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.parts.push_back(std::move(operand));
  pair.parts.push_back(parse_simple_operand());
  return pair;
}

Operand Parser::parse_simple_operand() {
  if (lexer_.accept("!")) {
    Operand operand = parse_simple_operand();
    operand.is_negated = true;
    return operand;
  }
  if (lexer_.accept("{")) return parse_list(Operand::Kind::vector, "}");
  if (lexer_.accept("(")) return parse_list(Operand::Kind::list, ")");
  if (lexer_.accept("[")) return parse_address();
  if (lexer_.peek().kind == Token::Kind::number || lexer_.peek().is("-")) return parse_number();
  Operand operand;
  operand.name = lexer_.word("an operand");
  operand.kind = operand.name == "_" ? Operand::Kind::sink : Operand::Kind::name;
  operand.value = parse_offset();
  return operand;
}

Operand Parser::parse_number() {
  Operand operand;
  const std::string_view text = lexer_.peek().text;
  if (is_float_constant(text)) {
    operand.kind = Operand::Kind::floating;
    operand.bits = float_bits(text);
    operand.float_bytes = text.size() == 10 ? 4 : 8;
    lexer_.next();
  } else {
    operand.kind = Operand::Kind::integer;
    operand.value = lexer_.integer();
  }
  return operand;
}

Operand Parser::parse_address() {
  Operand operand;
  operand.kind = Operand::Kind::address;
  operand.parts.push_back(parse_simple_operand());
  Operand& base = operand.parts.front();
  operand.name = base.name;
  operand.value = base.value;
  if (base.kind == Operand::Kind::name) base.value = 0;
  while (lexer_.accept(",")) operand.parts.push_back(parse_simple_operand());
  lexer_.expect("]");
  return operand;
}

Operand Parser::parse_list(Operand::Kind kind, std::string_view end) {
  Operand operand;
  operand.kind = kind;
  if (lexer_.accept(end)) return operand;
  do operand.parts.push_back(parse_operand());
  while (lexer_.accept(","));
  lexer_.expect(end);
  return operand;
}

int64_t Parser::parse_offset() {
  if (lexer_.accept("+")) return lexer_.integer();
  if (lexer_.peek().is("-")) return lexer_.integer();
  return 0;
}

}  // namespace tessera::cuda_sim::ptx
