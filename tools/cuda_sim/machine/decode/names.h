// What the names of PTX stand for: scopes of registers, labels and variables.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cuda_sim/machine/program.h"
#include "tools/cuda_sim/ptx/tree.h"

namespace tessera::cuda_sim {

/// A variable's place: an offset in shared, local or parameter space, an address of the device else.
struct Symbol {
  Space space = Space::global;
  uint64_t address = 0;
  bool is_dynamic_shared = false;  ///< its address follows from the kernel's static shared memory
};

struct Register {
  Type type = Type::none;
  Place place;
};

/// The names declared between { and }. A function that is expanded in place of a call has scopes of its own
/// for each call.
class NameScope {
 public:
  explicit NameScope(NameScope* parent) : parent_(parent) {}

  void declare(const ptx::RegisterDeclaration& declaration) { registers_.push_back(&declaration); }
  void declare(std::string_view name, const Symbol& symbol) { symbols_[name] = symbol; }
  void declare(const ptx::BranchTargets& table) { tables_[table.name] = &table; }
  void declare_label(std::string_view name, uint32_t index) { labels_[name] = index; }

  /// The register that `name` means here; its place is given when it is first asked for, after `used_bytes`
  /// of registers, which grow. Null where there is none.
  const Register* find_register(std::string_view name, uint32_t& used_bytes);
  const Symbol* find_symbol(std::string_view name) const;
  const ptx::BranchTargets* find_table(std::string_view name) const;
  /// -1 where there is none.
  int64_t find_label(std::string_view name) const;

 private:
  const ptx::RegisterDeclaration* find_declaration(std::string_view name) const;

  NameScope* parent_;
  std::vector<const ptx::RegisterDeclaration*> registers_;
  std::map<std::string, Register, std::less<>> places_;
  std::map<std::string_view, Symbol> symbols_;
  std::map<std::string_view, const ptx::BranchTargets*> tables_;
  std::map<std::string_view, uint32_t> labels_;
};

/// Bytes of a register's 32 values, a multiple of a cache line.
uint32_t register_row_bytes(Type type);

/// `value` up to a multiple of `alignment`.
template <class T>
constexpr T round_up(T value, T alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace tessera::cuda_sim
