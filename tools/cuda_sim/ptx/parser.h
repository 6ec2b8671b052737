// Tokens to a module's tree. parser.cpp reads a module, parse_function.cpp bodies, parse_operand.cpp
// operands, parse_variable.cpp variables and their initial values.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tools/cuda_sim/ptx/lexer.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim::ptx {

/// A recursive-descent parser of one module (PTX ISA, "Syntax" and "Directives").
class Parser {
 public:
  explicit Parser(const std::string& text) : lexer_(text) {}
  Module parse();

 private:
  struct Linkage {
    bool is_extern = false, is_visible = false;
  };
  /// A place of .loc; `parent` is the call that it was inlined into, an index of locations_.
  struct Location {
    uint32_t file = 0, line = 0;
    int parent = -1;
  };

  void parse_file();
  void skip_section();
  void skip_to_semicolon();

  // parse_function.cpp
  void parse_function(bool is_kernel, Linkage linkage);
  std::vector<FunctionParameter> parse_parameters();
  void parse_function_directives(Function& function);
  void parse_body(Function& function);
  void parse_body_directive(Function& function);
  void parse_registers(Function& function);
  void parse_location();
  void parse_label(Function& function, const Token& name);
  Statement parse_statement();
  void resolve_locations();

  // parse_operand.cpp
  Operand parse_operand();
  Operand parse_simple_operand();
  Operand parse_number();
  Operand parse_address();
  Operand parse_list(Operand::Kind kind, std::string_view end);
  int64_t parse_offset();

  // parse_variable.cpp
  std::vector<Variable> parse_variables(Space space, Linkage linkage);
  Variable parse_variable(Space space, Linkage linkage, Type type, uint32_t alignment, uint32_t elements);
  void parse_initial(Variable& variable, Type type);
  void parse_initial_value(Variable& variable, Type type, uint64_t& at);
  void append_initial_address(Variable& variable, uint64_t& at, uint32_t bytes);
  uint64_t parse_extent();
  std::string generic_symbol();

  Lexer lexer_;
  Module module_;
  std::vector<Location> locations_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, int> location_of_;  ///< file, line, column
  int location_ = -1;
};

/// Bits of 0f3F800000 or 0d3FF0000000000000.
uint64_t float_bits(std::string_view text);
/// The state space that a directive names (.shared); Space::generic for another one.
Space space_of_directive(std::string_view directive);

}  // namespace tessera::cuda_sim::ptx
