#include "tools/cuda_sim/ptx/parser.h"

#include <utility>

namespace tessera::cuda_sim::ptx {

Space space_of_directive(std::string_view directive) {
  if (directive == ".global") return Space::global;
  if (directive == ".const") return Space::constant;
  if (directive == ".shared") return Space::shared;
  if (directive == ".local") return Space::local;
  if (directive == ".param") return Space::parameter;
  return Space::generic;
}

Module Parser::parse() {
  Linkage linkage;
  while (lexer_.peek().kind != Token::Kind::end) {
    if (lexer_.accept(";")) continue;
    const Token& token = lexer_.peek();
    if (token.kind != Token::Kind::word || token.text[0] != '.') lexer_.fail("expected a directive");
    const std::string directive = lexer_.word("a directive");
    if (directive == ".version") {
      module_.version = std::string(lexer_.next().text);
    } else if (directive == ".target") {
      module_.target = lexer_.word("a target");
      while (lexer_.accept(",")) lexer_.next();
    } else if (directive == ".address_size") {
      if (lexer_.integer() != 64) lexer_.fail("only addresses of 64 bits are known");
    } else if (directive == ".file") {
      parse_file();
    } else if (directive == ".section") {
      skip_section();
    } else if (directive == ".visible" || directive == ".weak" || directive == ".common") {
      linkage.is_visible = true;
      continue;
    } else if (directive == ".extern") {
      linkage.is_extern = true;
      continue;
    } else if (directive == ".entry" || directive == ".func") {
      parse_function(directive == ".entry", linkage);
    } else if (const Space space = space_of_directive(directive); space != Space::generic) {
      for (Variable& variable : parse_variables(space, linkage))
        module_.variables.push_back(std::move(variable));
    } else if (directive == ".pragma" || directive == ".alias") {
      skip_to_semicolon();
    } else {
      lexer_.fail("unknown directive '" + directive + "' before");
    }
    linkage = {};
  }
  resolve_locations();
  return std::move(module_);
}

void Parser::parse_file() {
  const auto number = static_cast<uint32_t>(lexer_.integer());
  if (lexer_.peek().kind != Token::Kind::string) lexer_.fail("expected a file's name");
  module_.files[number] = std::string(lexer_.next().text);
  while (lexer_.accept(",")) lexer_.integer();
}

void Parser::skip_section() {
  while (!lexer_.peek().is("{")) {
    if (lexer_.peek().kind == Token::Kind::end) lexer_.fail("expected '{'");
    lexer_.next();
  }
  while (!lexer_.peek().is("}")) {
    if (lexer_.peek().kind == Token::Kind::end) lexer_.fail("expected '}'");
    lexer_.next();
  }
  lexer_.next();
}

void Parser::skip_to_semicolon() {
  while (!lexer_.peek().is(";")) {
    if (lexer_.peek().kind == Token::Kind::end) lexer_.fail("expected ';'");
    lexer_.next();
  }
  lexer_.next();
}

Module parse(const std::string& text) {
  return Parser(text).parse();
}

}  // namespace tessera::cuda_sim::ptx
