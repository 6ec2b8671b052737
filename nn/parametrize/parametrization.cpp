#include "nn/parametrize/parametrization.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "nn/module_hooks.h"
#include "nn/quantize_weights.h"

namespace tessera::nn {
namespace {

constexpr const char* container_name = "parametrizations";

/// The parametrisations of a module, by the names of the parameters.
struct Parametrizations : Module {};

/// "Linear 'fc'".
std::string described(const Module& module) {
  return module.full_name().empty() ? module.kind() : text(module.kind(), " '", module.full_name(), "'");
}

std::string full_name_of(const Module& module, const std::string& name) {
  return module.full_name().empty() ? name : text(module.full_name(), ".", name);
}

/// Throws ValueError naming the parameters that exist.
Module::Entry& own_parameter(Module& module, const std::string& name) {
  std::string names;
  for (Module::Entry& entry : module.entries()) {
    if (entry.is_buffer) continue;
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw ValueError(text("register_parametrization: ", described(module), " has no parameter '", name,
                        "': expected one of its own, ", names.empty() ? "of which it has none" : names));
}

/// Throws ConfigError for a parameter that others hold too.
void require_own(const Module& module, const Module::Entry& entry) {
  const std::string what = text("register_parametrization: '", entry.name, "' of ", described(module), " ");
  require<ConfigError>(!module.store(), what, "is sharded: parametrise it before dist::shard");
  require<ConfigError>(entry.held, what, "belongs to another rank: parametrise it before the model is cut");
  require<ConfigError>(!entry.master.defined(), what,
                       "is in mixed precision: parametrise it before nn::use_mixed_precision");
  require<ConfigError>(module.has_forward(), what,
                       "is in a module without a forward, so that no call computes it");
  require<ConfigError>(entry.name != "weight" || !has_quantized_weight(module), what,
                       "has 8-bit integers, which products read in its place: parametrise it before "
                       "nn::quantize_weights");
  const Module* root = &module;
  while (root->parent()) root = root->parent();
  root->for_each_entry([&](const std::string& other, const Module::Entry& found) {
    require<ConfigError>(&found == &entry || !found.variable.is_same(entry.variable), what, "is tied to '",
                         other, "': expected a parameter that one module has");
  });
}

/// Initial values as a function of those of `parametrized`.
init::Initializer initializer_from(const Module::Entry& parametrized, Parametrization::InitialValues values) {
  const auto fill = [from = parametrized.initializer, shape = parametrized.variable.shape(),
                     values = std::move(values)](const Tensor& out, uint64_t key, const Shape&, int64_t) {
    const Tensor w = Tensor::empty(shape, out.dtype(), out.device());
    from.fill(w, key, shape);
    out.copy_from(values(w, key).reshape(out.shape()));
  };
  return {text("from ", parametrized.name, ": ", parametrized.initializer.description()), fill,
          /*needs_full_tensor=*/true, init::Initializer::FillDType::own_dtype};
}

/// The key of random numbers for a parameter that has values: the same in every process.
uint64_t key_of_values(const std::string& name) {
  return init::parameter_key(0, name);
}

}  // namespace

Variable& Parametrization::declared_from(const Module::Entry& parametrized, InitialValues values,
                                         const Declare& declare) {
  const CategoryScope category(MemoryCategory::parameter);
  const Tensor& w = parametrized.variable.value();
  const Tensor first = values(w, key_of_values(parametrized.name));
  Variable& result = declare(first.shape(), initializer_from(parametrized, std::move(values)), first.dtype());
  if (!w.is_meta()) result.set_value(first);
  return result;
}

Variable& Parametrization::parameter_from(const Module::Entry& parametrized, const std::string& name,
                                          InitialValues values) {
  Variable& result =
      declared_from(parametrized, std::move(values),
                    [&](const Shape& shape, init::Initializer initializer, DType dtype) -> Variable& {
                      return parameter(name, shape, std::move(initializer), dtype);
                    });
  result.set_requires_grad(parametrized.variable.requires_grad());
  return result;
}

Variable& Parametrization::parameter_from(const Module::Entry& parametrized, const std::string& name) {
  const Tensor& w = parametrized.variable.value();
  Variable& result = parameter(name, w.shape(), parametrized.initializer, w.dtype());
  if (!w.is_meta()) result.set_value(w);
  result.set_requires_grad(parametrized.variable.requires_grad());
  return result;
}

void register_parametrization(Module& module, const std::string& name, const Parametrization::Make& make) {
  using Hooks = Parametrization::Hooks;
  require<ConfigError>(!is_parametrized(module, name), "register_parametrization: '", name, "' of ",
                       described(module),
                       " is parametrised already: expected one that is not, or remove_parametrizations "
                       "before");
  Module::Entry& entry = own_parameter(module, name);
  require_own(module, entry);
  std::unique_ptr<Parametrization> made = make(entry);
  Parametrization& parametrization = *made;
  parametrization.train(module.is_training());
  const bool is_first = !is_parametrized(module, "");
  if (is_first) Hooks::adopt(module, container_name, std::make_unique<Parametrizations>());
  try {
    Hooks::adopt(module.at(container_name), name, std::move(made));
  } catch (...) {
    if (is_first) Hooks::drop_child(module, container_name);
    throw;
  }
  for (Module::Entry& own : parametrization.entries())
    own.variable.set_name(full_name_of(parametrization, own.name));
  const Tensor& w = entry.variable.value();
  entry.variable.set_grad({});
  entry.variable.set_value(Tensor::empty(w.shape(), w.dtype(), meta()));
  entry.is_buffer = true;  // not listed: `for_each_entry` leaves out what is undefined
  entry.persistent = false;
  Hooks::of(module).computed.push_back({&entry, entry.variable, &parametrization, make});
  entry.variable = Variable();
}

bool is_parametrized(const Module& module, const std::string& name) {
  const auto* hooks = Parametrization::Hooks::find(module);
  return hooks &&
         std::any_of(hooks->computed.begin(), hooks->computed.end(),
                     [&](const ComputedParameter& p) { return name.empty() || p.entry->name == name; });
}

void remove_parametrizations(Module& module, const std::string& name, bool leave_parametrized) {
  using Hooks = Parametrization::Hooks;
  const std::string what = text("remove_parametrizations: '", name, "' of ", described(module), " ");
  require<ValueError>(is_parametrized(module, name), what, "is not parametrised");
  require<ConfigError>(!module.store(), what, "is sharded: remove its parametrisation before dist::shard");
  std::vector<ComputedParameter>& computed = Hooks::of(module).computed;
  const auto found = std::find_if(computed.begin(), computed.end(),
                                  [&](const ComputedParameter& p) { return p.entry->name == name; });
  Parametrization& parametrization = *found->parametrization;
  bool requires_grad = false;
  const Module::Entry* original = nullptr;
  parametrization.for_each_entry([&](const std::string& own, const Module::Entry& entry) {
    require<ConfigError>(!entry.master.defined(), what, "is in mixed precision");
    if (!entry.is_buffer) requires_grad |= entry.variable.requires_grad();
    if (own == "original") original = &entry;
  });
  Tensor value;
  if (leave_parametrized) {
    const GradMode no_history(false);
    parametrization.eval();
    value = parametrization.compute().value();
  } else {
    require<ValueError>(original && original->variable.shape() == found->parameter.shape(), what,
                        "expected a parametrisation with one 'original' of its shape, ",
                        found->parameter.shape(), ", for leave_parametrized = false; it is a ",
                        parametrization.kind());
    value = original->variable.value();
  }
  const Variable& parameter = found->parameter;
  parameter.set_value(value);
  parameter.set_grad_dtype(value.dtype());
  parameter.set_requires_grad(requires_grad);
  found->entry->variable = parameter;
  found->entry->is_buffer = false;
  found->entry->persistent = true;
  computed.erase(found);
  Hooks::drop_child(module.at(container_name), name);
  if (computed.empty()) Hooks::drop_child(module, container_name);
}

void copy_parametrizations(Module& to, const Module& from) {
  if (const auto* hooks = Parametrization::Hooks::find(from))
    for (const ComputedParameter& p : hooks->computed)
      if (!is_parametrized(to, p.entry->name)) register_parametrization(to, p.entry->name, p.make);
}

}  // namespace tessera::nn
