#include "nn/module.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "autograd/recompute/first_run.h"
#include "nn/mixed_precision.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::nn {

Module::Module() = default;

Module::Module(Module&& other) {
  require<ConfigError>(!other.parent_ && !other.hooks_ && !other.store_, other.kind(), " '",
                       other.full_name(), "' cannot be moved: it has ",
                       other.parent_  ? "a parent"
                       : other.hooks_ ? "hooks"
                                      : "sharded parameters");
  training_ = other.training_;
  entries_ = std::move(other.entries_);
  children_ = std::move(other.children_);
  for (Child& child : children_) child.module->parent_ = this;
}

Module::~Module() = default;

const std::string& Module::full_name() const {
  if (full_name_valid_.load(std::memory_order_acquire)) return full_name_;
  // Made at first use, by the first thread that runs the module.
  static std::recursive_mutex naming;
  const std::lock_guard lock(naming);
  if (!full_name_valid_.load(std::memory_order_relaxed)) {
    const std::string above = parent_ ? parent_->full_name() : "";
    full_name_ = above.empty() ? name_ : above + "." + name_;
    full_name_valid_.store(true, std::memory_order_release);
  }
  return full_name_;
}

void Module::invalidate_full_names() {
  for_each([](Module& module) { module.full_name_valid_ = false; });
}

ParameterStore* Module::store() const {
  for (const Module* module = this; module; module = module->parent_)
    if (module->store_) return module->store_.get();
  return nullptr;
}

namespace {

/// The parameters below `module`, each once by identity, sharded or not.
std::vector<NamedParameter> declared_parameters(const Module& module) {
  std::vector<NamedParameter> list;
  std::unordered_set<const VariableImpl*> seen;
  module.for_each_entry([&](const std::string& name, const Module::Entry& entry) {
    if (!entry.is_buffer && seen.insert(entry.variable.impl().get()).second)
      list.push_back({name, entry.variable, entry.master});
  });
  return list;
}

const Module& root_of(const Module& module) {
  const Module* root = &module;
  while (root->parent()) root = root->parent();
  return *root;
}

void require_unsharded(const Module& module, const char* where) {
  require<ConfigError>(!module.store(), where, ": the parameters of ", module.kind(), " '",
                       module.full_name(), "' are sharded; call it before dist::shard");
}

}  // namespace

ParameterList Module::parameters() const {
  if (ParameterStore* sharded = store()) return sharded->parameters(*this);
  std::vector<NamedParameter> list = declared_parameters(root_of(*this));
  if (parent_) {
    const ParameterSet below = parameters_below(*this);
    std::erase_if(list, [&](const NamedParameter& p) { return !below.contains(p.variable.impl().get()); });
  }
  return ParameterList(std::move(list));
}

std::vector<NamedVariable> Module::named_parameters() const {
  std::vector<NamedVariable> list;
  const std::vector<NamedParameter> own = declared_parameters(*this);
  if (!store()) {
    for (const NamedParameter& parameter : own) list.push_back({parameter.name, parameter.variable});
    return list;
  }
  // The store has shards under the first names in the whole model.
  std::unordered_map<std::string, Variable> shards;
  for (const NamedParameter& shard : parameters()) shards.emplace(shard.name, shard.variable);
  std::unordered_map<const VariableImpl*, std::string> full_names;
  for (const NamedParameter& parameter : declared_parameters(root_of(*this)))
    full_names.emplace(parameter.variable.impl().get(), parameter.name);
  for (const NamedParameter& parameter : own)
    list.push_back({parameter.name, shards.at(full_names.at(parameter.variable.impl().get()))});
  return list;
}

std::vector<NamedVariable> Module::named_buffers() const {
  std::vector<NamedVariable> list;
  for (const NamedParameter& buffer : buffers()) list.push_back({buffer.name, buffer.variable});
  return list;
}

ParameterSet parameters_below(const Module& module) {
  ParameterSet found;
  module.for_each_entry([&](const std::string&, const Module::Entry& entry) {
    if (!entry.is_buffer) found.insert(entry.variable.impl().get());
  });
  return found;
}

std::vector<NamedParameter> Module::buffers() const {
  std::vector<NamedParameter> list;
  for_each_entry([&](const std::string& name, const Entry& entry) {
    if (entry.is_buffer) list.push_back({name, entry.variable});
  });
  return list;
}

StateDict Module::state_dict() const {
  StateDict state;
  ParameterStore* sharded = store();
  for (const NamedParameter& parameter : declared_parameters(*this)) {
    if (sharded)
      state.push_back({parameter.name, sharded->full_value(parameter.name, parameter.variable)});
    else if (parameter.master.defined())
      state.push_back({parameter.name, parameter.master, parameter.variable.value()});
    else
      state.push_back({parameter.name, parameter.variable.value()});
  }
  for_each_entry([&](const std::string& name, const Entry& entry) {
    if (entry.is_buffer && entry.persistent) state.push_back({name, entry.variable.value()});
  });
  return state;
}

bool Module::is_training() const {
  return state_in_first_run(this, training_);
}

Module& Module::train(bool training) {
  for_each([training](Module& module) { module.training_ = training; });
  return *this;
}

void Module::set_requires_grad(bool requires_grad) {
  for (const NamedParameter& parameter : declared_parameters(*this))
    parameter.variable.set_requires_grad(requires_grad);
}

Module& Module::requires_grad_(bool requires_grad) {
  set_requires_grad(requires_grad);
  return *this;
}

namespace {

void convert(const NamedParameter& parameter, Device device, DType dtype) {
  CategoryScope category(MemoryCategory::parameter);
  const Variable& variable = parameter.variable;
  variable.set_value(ops::cast(parameter.values().to(device), dtype));
  const Variable gradient = variable.grad();
  if (gradient.defined())
    variable.set_grad(Variable(ops::cast(gradient.value().to(device), variable.grad_dtype())));
}

}  // namespace

Module& Module::to(Device device) {
  require_unsharded(*this, "to");
  const auto require_values = [&](const NamedParameter& parameter) {
    require<DeviceError>(
        !parameter.variable.value().is_meta() || device.is_meta(), "to: '", parameter.name, "' of ", kind(),
        " is on meta and has no values to move; call nn::materialize(module, ", device, ", seed) instead");
  };
  for (const NamedParameter& parameter : parameters()) require_values(parameter);
  for (const NamedParameter& buffer : buffers()) require_values(buffer);
  for (const NamedParameter& parameter : parameters()) {
    convert(parameter, device, parameter.variable.dtype());
    if (parameter.master.defined()) set_master(*this, parameter.variable, parameter.master.to(device));
  }
  for (const NamedParameter& buffer : buffers()) convert(buffer, device, buffer.variable.dtype());
  return *this;
}

Module& Module::to(DType dtype) {
  require_unsharded(*this, "to");
  require<DTypeError>(is_floating(dtype), "to: expected a floating dtype for ", kind(), ", got ", dtype);
  for (const NamedParameter& parameter : parameters())
    if (is_floating(parameter.variable.dtype())) {
      if (parameter.master.defined()) parameter.variable.set_grad_dtype(parameter.variable.dtype());
      convert(parameter, parameter.variable.device(), dtype);
      set_master(*this, parameter.variable, {});
    }
  for (const NamedParameter& buffer : buffers())
    if (is_floating(buffer.variable.dtype())) convert(buffer, buffer.variable.device(), dtype);
  return *this;
}

Module& Module::to(Device device, DType dtype) {
  return to(device).to(dtype);
}

void Module::require_free_name(const std::string& name) const {
  require<ConfigError>(!name.empty() && name.find('.') == std::string::npos, kind(),
                       ": expected a name that is not empty and has no dot, got '", name, "'");
  const bool taken =
      std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; }) ||
      std::any_of(children_.begin(), children_.end(), [&](const Child& child) { return child.name == name; });
  require<ConfigError>(!taken, kind(), ": the name '", name,
                       "' is taken: parameters, buffers and children have distinct names");
}

namespace {

/// Copies these values, in the dtype and to the device of what it fills.
init::Initializer given_values(const Tensor& values) {
  const auto copy = [values](const Tensor& out, uint64_t, const Shape&, int64_t) {
    out.copy_from(ops::cast(values, out.dtype()).to(out.device()));
  };
  return {"given values", copy, /*needs_full_tensor=*/true, init::Initializer::FillDType::own_dtype};
}

}  // namespace

Variable& Module::parameter(const std::string& name, const Shape& shape, init::Initializer initializer,
                            DType dtype) {
  require_free_name(name);
  const CategoryScope category(MemoryCategory::parameter);  // for a plan on meta; materialize sets its own
  entries_.push_back({.name = name,
                      .variable = Variable::parameter(Tensor::empty(shape, dtype, meta()), true, name),
                      .initializer = std::move(initializer)});
  return entries_.back().variable;
}

Variable& Module::parameter(const std::string& name, const Tensor& values) {
  require<ValueError>(values.defined() && !values.is_meta(), kind(), ": parameter '", name,
                      "' expects values, got ", describe(values),
                      "; give a shape and an initialiser instead");
  return parameter(name, values.shape(), given_values(values), values.dtype());
}

Variable& Module::share_parameter(const std::string& name, const Variable& shared) {
  require_free_name(name);
  require<ValueError>(shared.defined() && shared.is_parameter(), "share_parameter '", name,
                      "': expected a parameter, got ", shared);
  entries_.push_back({.name = name, .variable = shared, .initializer = {}});
  return entries_.back().variable;
}

Variable& Module::buffer(const std::string& name, const Shape& shape, init::Initializer initializer,
                         DType dtype, bool persistent) {
  require_free_name(name);
  const CategoryScope category(MemoryCategory::parameter);
  entries_.push_back({.name = name,
                      .variable = Variable::parameter(Tensor::empty(shape, dtype, meta()), false, name),
                      .initializer = std::move(initializer),
                      .is_buffer = true,
                      .persistent = persistent});
  return entries_.back().variable;
}

Variable& Module::buffer(const std::string& name, const Shape& shape, init::Element element, DType dtype,
                         bool persistent) {
  return buffer(name, shape, init::elementwise(std::move(element)), dtype, persistent);
}

Variable& Module::buffer(const std::string& name, const Tensor& values, bool persistent) {
  require<ValueError>(values.defined() && !values.is_meta(), kind(), ": buffer '", name,
                      "' expects values, got ", describe(values),
                      "; a function of the device computes them later");
  return buffer(name, values.shape(), given_values(values), values.dtype(), persistent);
}

Variable& Module::computed_buffer(const std::string& name, std::function<Tensor(Device)> values,
                                  bool persistent) {
  const Tensor plan = values(meta());
  const std::string what = text(kind(), ": the function of buffer '", name, "' ");
  require<ValueError>(plan.defined(), what, "returned no tensor");
  const Shape shape = plan.shape();
  const auto fill = [what, shape, values = std::move(values)](const Tensor& out, uint64_t, const Shape&,
                                                              int64_t) {
    const Tensor computed = values(out.device());
    require<ValueError>(computed.defined() && computed.shape() == shape && !computed.is_meta(), what,
                        "returned a tensor of shape ", shape, " at first, and now ", describe(computed));
    out.copy_from(ops::cast(computed.to(out.device()), out.dtype()));
  };
  return buffer(name, shape,
                init::Initializer("computed values", fill, /*needs_full_tensor=*/true,
                                  init::Initializer::FillDType::own_dtype),
                plan.dtype(), persistent);
}

void Module::adopt_child(const std::string& name, std::unique_ptr<Module> module) {
  require_free_name(name);
  module->name_ = name;
  module->parent_ = this;
  module->invalidate_full_names();
  children_.push_back({name, std::move(module)});
}

}  // namespace tessera::nn
