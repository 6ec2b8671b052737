// Kernels and device functions with their bodies (PTX ISA, "Kernel and Function Directives", "Instructions").
#include <algorithm>
#include <utility>

#include "tools/cuda_sim/ptx/parser.h"

namespace tessera::cuda_sim::ptx {

void Parser::parse_function(bool is_kernel, Linkage) {
  Function function;
  function.is_kernel = is_kernel;
  if (!is_kernel && lexer_.peek().is("(")) function.results = parse_parameters();
  function.name = lexer_.word("a function's name");
  if (lexer_.peek().is("(")) function.parameters = parse_parameters();
  parse_function_directives(function);
  if (lexer_.accept("{")) {
    function.has_body = true;
    parse_body(function);
  } else {
    lexer_.expect(";");
  }
  module_.functions.push_back(std::move(function));
}

std::vector<FunctionParameter> Parser::parse_parameters() {
  std::vector<FunctionParameter> parameters;
  lexer_.expect("(");
  if (lexer_.accept(")")) return parameters;
  do {
    FunctionParameter parameter;
    const std::string space = lexer_.word("a parameter");
    if (space != ".param" && space != ".reg")
      lexer_.fail("expected .param or .reg, not '" + space + "'; before");
    while (parameter.name.empty()) {
      const std::string word = lexer_.word("a parameter's type or name");
      if (word == ".align")
        parameter.alignment = static_cast<uint32_t>(lexer_.integer());
      else if (word[0] != '.')
        parameter.name = word;
      else if (const Type type = type_named(std::string_view(word).substr(1)); type != Type::none)
        parameter.type = type;
      else if (word != ".ptr" && space_of_directive(word) == Space::generic)
        lexer_.fail("'" + word + "' is not known of a parameter; before");
    }
    parameter.bytes = static_cast<uint32_t>(type_bytes(parameter.type));
    while (lexer_.accept("[")) parameter.bytes *= static_cast<uint32_t>(parse_extent());
    parameter.alignment = std::max(parameter.alignment, static_cast<uint32_t>(type_bytes(parameter.type)));
    parameters.push_back(std::move(parameter));
  } while (lexer_.accept(","));
  lexer_.expect(")");
  return parameters;
}

void Parser::parse_function_directives(Function& function) {
  while (lexer_.peek().kind == Token::Kind::word && lexer_.peek().text[0] == '.') {
    const std::string directive = lexer_.word("a directive");
    if (directive == ".pragma") {
      skip_to_semicolon();
      continue;
    }
    uint64_t product = 1;
    while (lexer_.peek().kind == Token::Kind::number) {
      product *= static_cast<uint64_t>(lexer_.integer());
      if (!lexer_.accept(",")) break;
    }
    if (directive == ".maxntid") function.max_threads = static_cast<uint32_t>(product);
    if (directive == ".reqntid") function.required_threads = static_cast<uint32_t>(product);
  }
}

void Parser::parse_body(Function& function) {
  int depth = 1;
  while (true) {
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::end) lexer_.fail("expected '}' of function " + function.name);
    if (lexer_.accept("{")) {
      ++depth;
      function.body.emplace_back(ScopeBegin{});
    } else if (lexer_.accept("}")) {
      if (--depth == 0) return;
      function.body.emplace_back(ScopeEnd{});
    } else if (lexer_.accept(";")) {
      continue;
    } else if (token.kind == Token::Kind::word && token.text[0] == '.') {
      parse_body_directive(function);
    } else if (token.is("@")) {
      function.body.emplace_back(parse_statement());
    } else if (token.kind == Token::Kind::word) {
      Lexer ahead = lexer_;
      ahead.next();
      if (ahead.peek().is(":"))
        parse_label(function, token);
      else
        function.body.emplace_back(parse_statement());
    } else {
      lexer_.fail("expected an instruction");
    }
  }
}

void Parser::parse_body_directive(Function& function) {
  const std::string directive = lexer_.word("a directive");
  if (directive == ".reg") {
    parse_registers(function);
  } else if (directive == ".loc") {
    parse_location();
  } else if (directive == ".pragma") {
    skip_to_semicolon();
  } else if (directive == ".file") {
    parse_file();
  } else if (directive == ".extern") {
    const Space space = space_of_directive(lexer_.word("a state space"));
    for (Variable& variable : parse_variables(space, {.is_extern = true}))
      function.body.emplace_back(std::move(variable));
  } else if (const Space space = space_of_directive(directive); space != Space::generic) {
    for (Variable& variable : parse_variables(space, {})) function.body.emplace_back(std::move(variable));
  } else {
    lexer_.fail("unknown directive '" + directive + "' before");
  }
}

void Parser::parse_registers(Function& function) {
  std::string word = lexer_.word("a register's type");
  if (word.starts_with(".v")) lexer_.fail("registers that are vectors are not known");
  const Type type = type_named(std::string_view(word).substr(1));
  if (type == Type::none) lexer_.fail("'" + word + "' is no type of a register; before");
  do {
    RegisterDeclaration declaration{.type = type, .name = lexer_.word("a register's name"), .count = 0};
    if (lexer_.accept("<")) {
      declaration.count = static_cast<int>(lexer_.integer());
      lexer_.expect(">");
    }
    function.body.emplace_back(std::move(declaration));
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

// .loc FILE LINE COLUMN [, function_name LABEL[+N], inlined_at FILE LINE COLUMN]
void Parser::parse_location() {
  const auto read = [this] { return static_cast<uint32_t>(lexer_.integer()); };
  Location location;
  location.file = read();
  location.line = read();
  const uint32_t column = read();
  while (lexer_.accept(",")) {
    const std::string what = lexer_.word("function_name or inlined_at");
    if (what == "function_name") {
      lexer_.word("a label");
      parse_offset();
    } else if (what == "inlined_at") {
      const uint32_t file = read(), line = read();
      const auto parent = location_of_.find({file, line, read()});
      if (parent != location_of_.end()) location.parent = parent->second;
    } else {
      lexer_.fail("'" + what + "' is not known of .loc; before");
    }
  }
  location_ = static_cast<int>(locations_.size());
  location_of_[{location.file, location.line, column}] = location_;
  locations_.push_back(location);
}

void Parser::parse_label(Function& function, const Token& name) {
  lexer_.next();
  lexer_.expect(":");
  if (lexer_.peek().is(".branchtargets")) {
    lexer_.next();
    BranchTargets targets{.name = std::string(name.text), .labels = {}};
    do targets.labels.push_back(lexer_.word("a label"));
    while (lexer_.accept(","));
    lexer_.expect(";");
    function.body.emplace_back(std::move(targets));
  } else if (lexer_.peek().is(".callprototype") || lexer_.peek().is(".calltargets")) {
    skip_to_semicolon();  // of calls through pointers, which are refused where they are called
  } else {
    function.body.emplace_back(Label{.name = std::string(name.text)});
  }
}

Statement Parser::parse_statement() {
  const Token begin = lexer_.peek();
  Statement statement;
  statement.text_line = begin.line;
  statement.line = static_cast<uint32_t>(location_ + 1);  // resolved when all files are known
  if (lexer_.accept("@")) {
    statement.guard_negated = lexer_.accept("!");
    statement.guard = lexer_.word("a predicate");
  }
  const std::string opcode = lexer_.word("an instruction");
  size_t at = opcode.find('.');
  statement.opcode = opcode.substr(0, at);
  while (at != std::string::npos) {
    const size_t end = opcode.find('.', at + 1);
    statement.modifiers.push_back(opcode.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    at = end;
  }
  if (!lexer_.peek().is(";")) {
    do statement.operands.push_back(parse_operand());
    while (lexer_.accept(","));
  }
  lexer_.expect(";");
  statement.text = lexer_.text_from(begin.text);
  statement.text.pop_back();
  return statement;
}

// A line of the toolkit's own headers helps no reader: the call that it was inlined into stands for it.
void Parser::resolve_locations() {
  const auto is_toolkit = [this](uint32_t file) {
    const auto name = module_.files.find(file);
    if (name == module_.files.end()) return false;
    for (const char* part : {"/targets/", "/cuda/include/", "/include/cccl/", "/cooperative_groups"})
      if (name->second.find(part) != std::string::npos) return true;
    return false;
  };
  for (Location& location : locations_) {
    // Parents come first, so one step is enough.
    if (location.parent >= 0 && is_toolkit(location.file)) {
      location.file = locations_[static_cast<size_t>(location.parent)].file;
      location.line = locations_[static_cast<size_t>(location.parent)].line;
    }
  }
  for (Function& function : module_.functions) {
    for (Element& element : function.body) {
      auto* statement = std::get_if<Statement>(&element);
      if (statement == nullptr || statement->line == 0) continue;
      const Location& location = locations_[statement->line - 1];
      statement->file = location.file;
      statement->line = location.line;
    }
  }
}

}  // namespace tessera::cuda_sim::ptx
