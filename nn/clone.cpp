#include "nn/clone.h"

#include <unordered_map>

#include "nn/parametrize/parametrization.h"

namespace tessera::nn {

bool Module::adopt_clone(const Module&, const std::string&, std::unique_ptr<Module>&) {
  return false;
}
void Module::copy_options(const Module&) {}

namespace {

bool same_type(const Module& a, const Module& b) {
  return typeid(a) == typeid(b);
}

}  // namespace

/// Makes a copy of a tree, module by module.
class TreeCopy {
 public:
  static std::unique_ptr<Module> of(const Module& original) {
    std::unique_ptr<Module> copy = constructed(original);
    TreeCopy tree;
    tree.complete(*copy, original);
    tree.copy_state(*copy, original);
    return copy;
  }

 private:
  static std::string named(const Module& module) {
    return text("clone: ", module.kind(), " '", module.full_name(), "'");
  }

  static std::unique_ptr<Module> constructed(const Module& original) {
    std::unique_ptr<Module> copy = original.construct_again();
    require<ConfigError>(copy && same_type(*copy, original), named(original),
                         " cannot be constructed again: derive it from nn::Layer<", original.kind(),
                         ", Options> with a constructor from Options, or give it one without arguments");
    return copy;
  }

  /// Adds parametrisations and the children that constructors do not make.
  void complete(Module& copy, const Module& original) {
    copy_parametrizations(copy, original);
    for (const Module::Child& child : original.child_entries()) {
      const Module::Child* same = nullptr;
      for (const Module::Child& made : copy.child_entries())
        if (made.name == child.name) same = &made;
      if (!same) {
        std::unique_ptr<Module> clone = constructed(*child.module);
        Module& added = *clone;
        require<ConfigError>(copy.adopt_clone(original, child.name, clone), named(original), " has a child '",
                             child.name, "' that its constructor does not make");
        complete(added, *child.module);
        continue;
      }
      require<ConfigError>(same_type(*same->module, *child.module), named(*child.module), " is made as a ",
                           same->module->kind(), " by the constructor of ", original.kind());
      complete(*same->module, *child.module);
    }
    require<ConfigError>(copy.child_entries().size() == original.child_entries().size(), named(original),
                         " has ", original.child_entries().size(), " children, and its constructor makes ",
                         copy.child_entries().size());
  }

  void copy_state(Module& copy, const Module& original) {
    copy.training_ = original.training_;
    require<ConfigError>(copy.entries().size() == original.entries().size(), named(original), " has ",
                         original.entries().size(), " parameters and buffers, and its constructor makes ",
                         copy.entries().size());
    auto entry = copy.entries().begin();
    for (const Module::Entry& from : original.entries()) {
      require<ConfigError>(entry->name == from.name && entry->is_buffer == from.is_buffer, named(original),
                           " has '", from.name, "', and its constructor makes '", entry->name, "'");
      copy_entry(*entry++, from, original);
    }
    auto child = copy.child_entries().begin();
    for (const Module::Child& from : original.child_entries()) copy_state(*(child++)->module, *from.module);
    copy.copy_options(original);
  }

  void copy_entry(Module::Entry& to, const Module::Entry& from, const Module& original) {
    require<ConfigError>(!from.master.defined(), named(original), ": '", from.name,
                         "' is in mixed precision; clone the module before nn::use_mixed_precision");
    to.persistent = from.persistent;
    to.held = from.held;
    if (!from.variable.defined()) return;  // a call computes it
    const auto [copied, is_first] = copies_.emplace(from.variable.impl().get(), to.variable);
    if (!is_first) {
      to.variable = copied->second;  // tied
      return;
    }
    const Tensor& values = from.variable.value();
    const CategoryScope category(MemoryCategory::parameter);
    to.variable.set_value(values.is_meta() ? Tensor::empty(values.shape(), values.dtype(), meta())
                                           : values.clone());
    to.variable.set_name(from.variable.name());
    if (is_floating(values.dtype())) {
      to.variable.set_requires_grad(from.variable.requires_grad());
      to.variable.set_grad_dtype(from.variable.grad_dtype());
    }
  }

  std::unordered_map<const VariableImpl*, Variable> copies_;  // by the originals
};

std::unique_ptr<Module> clone_module(const Module& module) {
  require<ConfigError>(!module.store(), "clone: the parameters of ", module.kind(), " '", module.full_name(),
                       "' are sharded; clone it before dist::shard");
  return TreeCopy::of(module);
}

}  // namespace tessera::nn
