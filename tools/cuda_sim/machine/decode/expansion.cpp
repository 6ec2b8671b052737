#include "tools/cuda_sim/machine/decode/expansion.h"

#include <algorithm>
#include <stdexcept>

#include "tools/cuda_sim/machine/access.h"
#include "tools/cuda_sim/machine/calls/device_calls.h"

namespace tessera::cuda_sim {

void refuse(const ptx::Statement& statement, const std::string& kernel, std::string_view what) {
  std::string message = "kernel " + kernel + ", PTX line " + std::to_string(statement.text_line) + ": `";
  message += statement.text + "`: ";
  throw std::runtime_error(message += what);
}

CallOperands call_operands(const ptx::Statement& call, const std::string& kernel) {
  CallOperands parts;
  size_t at = 0;
  const auto& operands = call.operands;
  if (at < operands.size() && operands[at].kind == ptx::Operand::Kind::list)
    parts.results = operands[at++].parts;
  if (at == operands.size() || operands[at].kind != ptx::Operand::Kind::name)
    refuse(call, kernel, "a call without a function's name");
  parts.function = operands[at++].name;
  if (parts.function[0] == '%') refuse(call, kernel, "a call through a pointer is not known");
  if (at < operands.size() && operands[at].kind == ptx::Operand::Kind::list)
    parts.arguments = operands[at++].parts;
  return parts;
}

Expansion::Expansion(const ptx::Module& module, const ptx::Function& kernel,
                     const std::map<const ptx::Variable*, uint64_t>& globals)
    : module_(&module), kernel_(&kernel), globals_(&globals) {
  module_scope_ = &new_scope(nullptr);
  for (const ptx::Variable& variable : module.variables)
    if (variable.space == Space::global || variable.space == Space::constant)
      declare_variable(variable, *module_scope_);
  NameScope& scope = new_scope(module_scope_);
  declare_kernel_parameters(kernel, scope);
  frames_.push_back(std::make_unique<Frame>());
  frames_.back()->is_kernel = true;
  expand_body(kernel, scope, *frames_.back());
  local_bytes_ = round_up(local_bytes_, 16u);
}

NameScope& Expansion::new_scope(NameScope* parent) {
  scopes_.push_back(std::make_unique<NameScope>(parent));
  return *scopes_.back();
}

void Expansion::declare_kernel_parameters(const ptx::Function& kernel, NameScope& scope) {
  for (const ptx::FunctionParameter& parameter : kernel.parameters) {
    const uint32_t offset = round_up(parameter_bytes_, parameter.alignment);
    parameters_.push_back({parameter.name, offset, parameter.bytes});
    scope.declare(parameter.name, {.space = Space::parameter, .address = offset});
    parameter_bytes_ = offset + parameter.bytes;
  }
}

void Expansion::expand_body(const ptx::Function& function, NameScope& scope, Frame& frame) {
  struct Open {
    NameScope* scope;
    uint32_t local_top;
  };
  std::vector<Open> open{{&scope, local_top_}};
  active_calls_.push_back(&function);
  for (const ptx::Element& element : function.body) {
    NameScope& here = *open.back().scope;
    if (const auto* statement = std::get_if<ptx::Statement>(&element)) {
      expand_statement(*statement, here, frame);
    } else if (const auto* declaration = std::get_if<ptx::RegisterDeclaration>(&element)) {
      here.declare(*declaration);
    } else if (const auto* variable = std::get_if<ptx::Variable>(&element)) {
      declare_variable(*variable, here);
    } else if (const auto* label = std::get_if<ptx::Label>(&element)) {
      here.declare_label(label->name, static_cast<uint32_t>(steps_.size()));
    } else if (const auto* table = std::get_if<ptx::BranchTargets>(&element)) {
      here.declare(*table);
    } else if (std::holds_alternative<ptx::ScopeBegin>(element)) {
      open.push_back({&new_scope(&here), local_top_});
    } else {
      local_top_ = open.back().local_top;
      open.pop_back();
    }
  }
  local_top_ = open.front().local_top;
  active_calls_.pop_back();
  frame.end = static_cast<uint32_t>(steps_.size());
}

void Expansion::expand_statement(const ptx::Statement& statement, NameScope& scope, const Frame& frame) {
  if (statement.opcode == "call") {
    expand_call(statement, scope, frame);
    return;
  }
  for (const ptx::Operand& operand : statement.operands) declare_used(operand, scope);
  steps_.push_back({&statement, &scope, &frame, nullptr});
}

void Expansion::expand_call(const ptx::Statement& statement, NameScope& scope, const Frame& frame) {
  const CallOperands call = call_operands(statement, kernel_->name);
  if (find_device_call(call.function) != nullptr) {
    steps_.push_back({&statement, &scope, &frame, nullptr});
    return;
  }
  const ptx::Function* callee = find_function(call.function);
  if (callee == nullptr || !callee->has_body)
    refuse(statement, kernel_->name,
           "function " + call.function + " has no body and is no device call that is known");
  if (std::find(active_calls_.begin(), active_calls_.end(), callee) != active_calls_.end())
    refuse(statement, kernel_->name, "the recursive function " + call.function + " is not known");
  frames_.push_back(std::make_unique<Frame>());
  Frame& body = *frames_.back();
  if (!statement.guard.empty()) steps_.push_back({&statement, &scope, &frame, &body});
  NameScope& inner = new_scope(module_scope_);
  bind(statement, callee->name, "results", callee->results, call.results, scope, inner);
  bind(statement, callee->name, "parameters", callee->parameters, call.arguments, scope, inner);
  expand_body(*callee, inner, body);
}

void Expansion::bind(const ptx::Statement& call, const std::string& function, const char* what,
                     const std::vector<ptx::FunctionParameter>& formal,
                     const std::vector<ptx::Operand>& actual, NameScope& caller, NameScope& callee) {
  if (formal.size() != actual.size()) {
    std::string text = "function " + function + " has " + std::to_string(formal.size()) + ' ';
    text += what;
    refuse(call, kernel_->name, text + ", not " + std::to_string(actual.size()));
  }
  for (size_t i = 0; i < formal.size(); ++i) {
    const Symbol* symbol = caller.find_symbol(actual[i].name);
    if (symbol == nullptr) refuse(call, kernel_->name, "only .param variables are known as arguments");
    callee.declare(formal[i].name, *symbol);
  }
}

void Expansion::declare_variable(const ptx::Variable& variable, NameScope& scope) {
  switch (variable.space) {
    case Space::local:
    case Space::parameter: {  // .param between functions
      const uint32_t at = round_up(local_top_, variable.alignment);
      local_top_ = at + static_cast<uint32_t>(variable.bytes);
      local_bytes_ = std::max(local_bytes_, local_top_);
      scope.declare(variable.name, {.space = Space::local, .address = at});
      break;
    }
    case Space::shared:
      place_shared(variable, scope);
      break;
    default: {
      const auto known = globals_->find(&variable);
      if (known != globals_->end())
        scope.declare(variable.name, {.space = variable.space, .address = known->second});
    }
  }
}

// A module's shared variables take space only in kernels that name them.
void Expansion::declare_used(const ptx::Operand& operand, NameScope& scope) {
  for (const ptx::Operand& part : operand.parts) declare_used(part, scope);
  if (operand.name.empty() || operand.name[0] == '%' || scope.find_symbol(operand.name) != nullptr) return;
  for (const ptx::Variable& variable : module_->variables)
    if (variable.space == Space::shared && variable.name == operand.name)
      place_shared(variable, *module_scope_);
}

void Expansion::place_shared(const ptx::Variable& variable, NameScope& scope) {
  if (variable.is_extern && variable.bytes == 0) {
    uses_dynamic_shared_ = true;
    dynamic_alignment_ = std::max(dynamic_alignment_, variable.alignment);
    scope.declare(variable.name, {.space = Space::shared, .is_dynamic_shared = true});
    return;
  }
  const auto [known, is_new] = shared_.try_emplace(&variable, round_up(shared_bytes_, variable.alignment));
  if (is_new) shared_bytes_ = known->second + static_cast<uint32_t>(variable.bytes);
  scope.declare(variable.name, {.space = Space::shared, .address = shared_begin + known->second});
}

const ptx::Function* Expansion::find_function(const std::string& name) const {
  const ptx::Function* found = nullptr;
  for (const ptx::Function& function : module_->functions)
    if (function.name == name && (found == nullptr || function.has_body)) found = &function;
  return found;
}

}  // namespace tessera::cuda_sim
