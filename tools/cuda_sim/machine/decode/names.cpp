#include "tools/cuda_sim/machine/decode/names.h"

#include <algorithm>
#include <charconv>

namespace tessera::cuda_sim {

uint32_t register_row_bytes(Type type) {
  const int bytes = type == Type::pred ? static_cast<int>(sizeof(LaneMask)) : type_bytes(type) * warp_lanes;
  return round_up(static_cast<uint32_t>(bytes), 64u);
}

const ptx::RegisterDeclaration* NameScope::find_declaration(std::string_view name) const {
  for (const ptx::RegisterDeclaration* declaration : registers_) {
    const std::string& prefix = declaration->name;
    if (declaration->count == 0 ? name == prefix : name.size() > prefix.size() && name.starts_with(prefix)) {
      if (declaration->count == 0) return declaration;
      int number = 0;
      const auto [end, error] =
          std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
      if (error == std::errc{} && end == name.data() + name.size() && number < declaration->count)
        return declaration;
    }
  }
  return nullptr;
}

const Register* NameScope::find_register(std::string_view name, uint32_t& used_bytes) {
  for (NameScope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto known = scope->places_.find(name);
    if (known != scope->places_.end()) return &known->second;
    const ptx::RegisterDeclaration* declaration = scope->find_declaration(name);
    if (declaration == nullptr) continue;
    const Register created{declaration->type, Place::in_register(used_bytes)};
    used_bytes += register_row_bytes(declaration->type);
    return &scope->places_.emplace(std::string(name), created).first->second;
  }
  return nullptr;
}

const Symbol* NameScope::find_symbol(std::string_view name) const {
  for (const NameScope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->symbols_.find(name);
    if (found != scope->symbols_.end()) return &found->second;
  }
  return nullptr;
}

const ptx::BranchTargets* NameScope::find_table(std::string_view name) const {
  for (const NameScope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->tables_.find(name);
    if (found != scope->tables_.end()) return found->second;
  }
  return nullptr;
}

int64_t NameScope::find_label(std::string_view name) const {
  for (const NameScope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->labels_.find(name);
    if (found != scope->labels_.end()) return found->second;
  }
  return -1;
}

}  // namespace tessera::cuda_sim
