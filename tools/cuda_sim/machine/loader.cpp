#include "tools/cuda_sim/machine/loader.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tools/cuda_sim/checks/shadow.h"
#include "tools/cuda_sim/machine/decode/decode_kernel.h"

namespace tessera::cuda_sim {

namespace {

bool is_in_device_memory(const ptx::Variable& variable) {
  return (variable.space == Space::global || variable.space == Space::constant) && !variable.is_extern;
}

template <class Visit>
void visit_variables(const ptx::Module& module, Visit visit) {
  for (const ptx::Variable& variable : module.variables) visit(variable);
  for (const ptx::Function& function : module.functions)
    for (const ptx::Element& element : function.body)
      if (const auto* variable = std::get_if<ptx::Variable>(&element)) visit(*variable);
}

}  // namespace

LoadedModule::LoadedModule(Device& device, ptx::Module module)
    : device_(&device), module_(std::move(module)) {
  visit_variables(module_, [this](const ptx::Variable& variable) {
    if (is_in_device_memory(variable)) allocate(variable);
  });
  visit_variables(module_, [this](const ptx::Variable& variable) {
    if (is_in_device_memory(variable)) write_initial(variable);
  });
}

LoadedModule::~LoadedModule() {
  for (const auto& [variable, address] : addresses_) device_->memory().release(address, 0);
}

void LoadedModule::allocate(const ptx::Variable& variable) {
  const uint64_t bytes = std::max<uint64_t>(variable.bytes, 1);
  const uint64_t address = device_->memory().allocate(bytes, variable.name);
  if (address == 0)
    throw std::runtime_error("the device's memory does not hold variable " + variable.name + " of " +
                             std::to_string(variable.bytes) + " bytes");
  addresses_[&variable] = address;
  variables_[variable.name] = {address, variable.bytes};
}

// Variables without initial values are zeros (PTX ISA, "Initializers").
void LoadedModule::write_initial(const ptx::Variable& variable) {
  const uint64_t address = addresses_.at(&variable);
  auto* bytes = reinterpret_cast<uint8_t*>(address);
  std::memset(bytes, 0, variable.bytes);
  if (!variable.initial.empty()) std::memcpy(bytes, variable.initial.data(), variable.initial.size());
  for (const ptx::Variable::Address& pointer : variable.addresses) {
    const LoadedVariable* target = this->variable(pointer.symbol);
    if (target == nullptr)
      throw std::runtime_error("variable " + variable.name + " has the address of " + pointer.symbol +
                               ", which is no variable of the module");
    const uint64_t value = target->address + static_cast<uint64_t>(pointer.offset);
    std::memcpy(bytes + pointer.at, &value, sizeof value);
  }
  device_->shadow().access_range(0, address, variable.bytes, true, "the module's load");
}

bool LoadedModule::has_kernel(const std::string& name) const {
  return std::any_of(module_.functions.begin(), module_.functions.end(), [&](const ptx::Function& function) {
    return function.is_kernel && function.has_body && function.name == name;
  });
}

std::vector<std::string> LoadedModule::kernels() const {
  std::vector<std::string> names;
  for (const ptx::Function& function : module_.functions)
    if (function.is_kernel && function.has_body) names.push_back(function.name);
  return names;
}

const Program& LoadedModule::program(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto known = programs_.find(name);
  if (known != programs_.end()) return known->second;
  const auto error = errors_.find(name);
  if (error != errors_.end()) throw std::runtime_error(error->second);
  for (const ptx::Function& function : module_.functions) {
    if (!function.is_kernel || !function.has_body || function.name != name) continue;
    try {
      return programs_.emplace(name, decode_kernel(module_, function, addresses_)).first->second;
    } catch (const std::runtime_error& unknown) {
      errors_[name] = unknown.what();
      throw;
    }
  }
  throw std::runtime_error("the module has no kernel " + name);
}

const LoadedVariable* LoadedModule::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

}  // namespace tessera::cuda_sim
