// Variables of the state spaces and their initial values (PTX ISA, "Variables").
#include <algorithm>

#include "tools/cuda_sim/ptx/parser.h"

namespace tessera::cuda_sim::ptx {

std::vector<Variable> Parser::parse_variables(Space space, Linkage linkage) {
  Type type = Type::none;
  uint32_t alignment = 0, elements = 1;
  while (type == Type::none) {
    const std::string word = lexer_.word("a variable's type");
    if (word == ".align")
      alignment = static_cast<uint32_t>(lexer_.integer());
    else if (word == ".v2" || word == ".v4" || word == ".v8")
      elements = static_cast<uint32_t>(word[2] - '0');
    else if (word.starts_with(".attribute"))
      lexer_.expect("("), lexer_.next(), lexer_.expect(")");
    else if ((type = type_named(std::string_view(word).substr(1))) == Type::none)
      lexer_.fail("'" + word + "' is no type of a variable; before");
  }
  std::vector<Variable> variables;
  do variables.push_back(parse_variable(space, linkage, type, alignment, elements));
  while (lexer_.accept(","));
  lexer_.expect(";");
  return variables;
}

Variable Parser::parse_variable(Space space, Linkage linkage, Type type, uint32_t alignment,
                                uint32_t elements) {
  Variable variable;
  variable.space = space;
  variable.name = lexer_.word("a variable's name");
  variable.is_extern = linkage.is_extern;
  variable.is_visible = linkage.is_visible;
  variable.bytes = uint64_t{elements} * static_cast<uint64_t>(type_bytes(type));
  variable.alignment =
      std::max<uint32_t>({alignment, 1, alignment == 0 ? static_cast<uint32_t>(variable.bytes) : 1});
  uint64_t count = 1;
  bool has_open_extent = false;
  while (lexer_.accept("[")) {
    const uint64_t extent = parse_extent();
    if (extent == 0)
      has_open_extent = true;
    else
      count *= extent;
  }
  const uint64_t element_bytes = variable.bytes;
  variable.bytes = has_open_extent ? 0 : variable.bytes * count;
  if (lexer_.accept("=")) {
    parse_initial(variable, type);
    if (has_open_extent)
      variable.bytes = (variable.initial.size() + element_bytes - 1) / element_bytes * element_bytes;
    if (variable.initial.size() > variable.bytes)
      lexer_.fail("more initial values than '" + variable.name + "' has elements");
    variable.initial.resize(variable.bytes);
  }
  return variable;
}

uint64_t Parser::parse_extent() {
  uint64_t extent = 0;
  if (!lexer_.peek().is("]")) extent = static_cast<uint64_t>(lexer_.integer());
  lexer_.expect("]");
  return extent;
}

void Parser::parse_initial(Variable& variable, Type type) {
  uint64_t at = 0;
  parse_initial_value(variable, type, at);
}

void Parser::parse_initial_value(Variable& variable, Type type, uint64_t& at) {
  if (lexer_.accept("{")) {
    if (lexer_.accept("}")) return;
    do parse_initial_value(variable, type, at);
    while (lexer_.accept(","));
    lexer_.expect("}");
    return;
  }
  const auto bytes = static_cast<uint32_t>(type_bytes(type));
  if (lexer_.peek().kind == Token::Kind::word) {
    append_initial_address(variable, at, bytes);
    return;
  }
  const Operand value = parse_number();
  if (lexer_.peek().is("(")) {  // 0xFF00(symbol): one byte of an address; all eight of them follow each other
    lexer_.expect("(");
    const bool is_first = (value.value & 0xff) != 0;
    uint64_t begin = at;
    if (is_first) {
      append_initial_address(variable, begin, 8);
    } else {
      generic_symbol();
      parse_offset();
    }
    lexer_.expect(")");
    at += 1;
    return;
  }
  const uint64_t bits =
      value.kind == Operand::Kind::floating ? value.bits : static_cast<uint64_t>(value.value);
  variable.initial.resize(std::max<size_t>(variable.initial.size(), at + bytes));
  for (uint32_t i = 0; i < bytes; ++i) variable.initial[at + i] = static_cast<uint8_t>(bits >> (8 * i));
  at += bytes;
}

void Parser::append_initial_address(Variable& variable, uint64_t& at, uint32_t bytes) {
  if (bytes != 8) lexer_.fail("an address needs 8 bytes");
  Variable::Address address{.at = at, .symbol = generic_symbol(), .offset = 0};
  address.offset = parse_offset();
  variable.addresses.push_back(std::move(address));
  variable.initial.resize(std::max<size_t>(variable.initial.size(), at + bytes));
  at += bytes;
}

std::string Parser::generic_symbol() {
  std::string symbol = lexer_.word("a symbol");
  if (symbol == "generic") {
    lexer_.expect("(");
    symbol = lexer_.word("a symbol");
    lexer_.expect(")");
  }
  return symbol;
}

}  // namespace tessera::cuda_sim::ptx
