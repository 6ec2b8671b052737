// PTX as text gives it: a module's functions, variables and statements, not yet decoded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tools/cuda_sim/machine/types.h"

namespace tessera::cuda_sim::ptx {

/// An operand. `parts` holds the elements of {..}, of a|b and of (..), and an address's base.
struct Operand {
  enum class Kind : uint8_t { name, integer, floating, address, vector, pair, list, sink };
  Kind kind = Kind::name;
  std::string name;     ///< a register, a special register, a symbol or a label; of an address: its base
  int64_t value = 0;    ///< an integer; of name and address: the offset behind +
  uint64_t bits = 0;    ///< of 0f... and 0d..., as written
  int float_bytes = 0;  ///< 4 or 8
  bool is_negated = false;
  std::vector<Operand> parts;
};

struct Statement {
  std::string guard;  ///< a predicate's name, or empty
  bool guard_negated = false;
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
  uint32_t file = 0, line = 0;  ///< of .loc
  int text_line = 0;            ///< in the PTX
  std::string text;
};

/// .reg .f32 %f<5>: count 5; a single name has count 0.
struct RegisterDeclaration {
  Type type = Type::none;
  std::string name;
  int count = 0;
};

/// A variable of a state space, in a module or a function.
struct Variable {
  Space space = Space::global;
  std::string name;
  uint32_t alignment = 1;
  uint64_t bytes = 0;
  bool is_extern = false;  ///< with [] in shared space: the dynamic shared memory
  bool is_visible = false;
  std::vector<uint8_t> initial;  ///< empty: zeros
  struct Address {
    uint64_t at;
    std::string symbol;
    int64_t offset;
  };
  std::vector<Address> addresses;  ///< of symbols, in `initial`
};

struct Label {
  std::string name;
};
struct ScopeBegin {};
struct ScopeEnd {};
struct BranchTargets {
  std::string name;
  std::vector<std::string> labels;
};

using Element =
    std::variant<Statement, RegisterDeclaration, Variable, Label, ScopeBegin, ScopeEnd, BranchTargets>;

struct FunctionParameter {
  std::string name;
  Type type = Type::none;
  uint32_t alignment = 1, bytes = 0;
};

struct Function {
  bool is_kernel = false;
  bool has_body = false;
  std::string name;
  std::vector<FunctionParameter> results, parameters;
  uint32_t max_threads = 0, required_threads = 0;
  std::vector<Element> body;
};

struct Module {
  std::string version, target;
  std::map<uint32_t, std::string> files;
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

/// Reads a module. @throws std::runtime_error with line and text of what is not understood.
Module parse(const std::string& text);

}  // namespace tessera::cuda_sim::ptx
