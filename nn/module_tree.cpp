// The walk over a module's tree, and paths in it.

#include <algorithm>

#include "nn/module.h"

namespace tessera::nn {
namespace {

/// "a, b", or `none`.
std::string joined(const std::vector<std::string>& names, const char* none) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? none : all;
}

/// The child of this name, null when there is none.
Module* find_child(const Module& module, const std::string& name) {
  for (const Module::Child& child : module.child_entries())
    if (child.name == name) return child.module.get();
  return nullptr;
}

void visit_entries(const Module& module, const std::string& prefix,
                   const std::function<void(const std::string&, const Module::Entry&)>& visit) {
  for (const Module::Entry& entry : module.entries())
    if (entry.held && entry.variable.defined()) visit(prefix + entry.name, entry);
  for (const Module::Child& child : module.child_entries())
    visit_entries(*child.module, prefix + child.name + ".", visit);
}

/// Module or const Module, as `at` for both: constness is that of the root.
template <class M>
M& module_at(M& root, const std::string& path) {
  M* module = &root;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string step = path.substr(begin, end - begin);
    M* child = find_child(*module, step);
    if (!child) {
      std::vector<std::string> names;
      for (const Module::Child& c : module->child_entries()) names.push_back(c.name);
      const std::string of = step == path ? "" : text(" of '", path, "'");
      const std::string where = module->full_name().empty() ? "" : text(" '", module->full_name(), "'");
      throw ValueError(text("at: no module '", step, "'", of, " in ", module->kind(), where, ": it has ",
                            joined(names, "no children")));
    }
    module = child;
    begin = end + 1;
  }
  return *module;
}

Variable variable_at(const Module& root, const std::string& path, bool is_buffer) {
  const size_t dot = path.rfind('.');
  const bool is_own = dot == std::string::npos;
  const Module& module = is_own ? root : root.at(path.substr(0, dot));
  const std::string name = is_own ? path : path.substr(dot + 1);
  std::vector<std::string> names;
  for (const Module::Entry& entry : module.entries()) {
    if (entry.is_buffer != is_buffer || !entry.variable.defined()) continue;
    if (entry.name == name) return entry.variable;
    names.push_back(entry.name);
  }
  throw ValueError(text(is_buffer ? "get_buffer: no buffer '" : "get_parameter: no parameter '", name,
                        "' in ", module.kind(), " '", module.full_name(), "': it has ",
                        joined(names, "none")));
}

/// The name of `module` relative to `root`, above it.
std::string relative_name(const Module& root, const Module& module) {
  std::string name;
  for (const Module* above = &module; above != &root; above = above->parent())
    name = name.empty() ? above->name() : above->name() + "." + name;
  return name;
}

template <class M>
ModuleRange<M> modules_of(M& root) {
  std::vector<M*> list;
  root.for_each([&](M& module) { list.push_back(&module); });
  return ModuleRange<M>(std::move(list));
}

template <class M>
std::vector<NamedModuleOf<M>> named_modules_of(M& root) {
  std::vector<NamedModuleOf<M>> list;
  root.for_each([&](M& module) { list.push_back({relative_name(root, module), module}); });
  return list;
}

template <class M>
ModuleRange<M> children_of(M& module) {
  std::vector<M*> list;
  for (const Module::Child& child : module.child_entries()) list.push_back(child.module.get());
  return ModuleRange<M>(std::move(list));
}

template <class M>
std::vector<NamedModuleOf<M>> named_children_of(M& module) {
  std::vector<NamedModuleOf<M>> list;
  for (const Module::Child& child : module.child_entries()) list.push_back({child.name, *child.module});
  return list;
}

}  // namespace

void Module::for_each(const std::function<void(Module&)>& visit) {
  visit(*this);
  for (Child& child : children_) child.module->for_each(visit);
}

void Module::for_each_entry(const std::function<void(const std::string&, const Entry&)>& visit) const {
  visit_entries(*this, "", visit);
}

void Module::for_each(const std::function<void(const Module&)>& visit) const {
  visit(*this);
  for (const Child& child : children_) std::as_const(*child.module).for_each(visit);
}

Module& Module::apply(const std::function<void(Module&)>& change) {
  for (Child& child : children_) child.module->apply(change);
  change(*this);
  return *this;
}

Module& Module::at(const std::string& path) {
  return module_at(*this, path);
}
const Module& Module::at(const std::string& path) const {
  return module_at(*this, path);
}

Variable Module::get_parameter(const std::string& path) const {
  return variable_at(*this, path, /*is_buffer=*/false);
}
Variable Module::get_buffer(const std::string& path) const {
  return variable_at(*this, path, /*is_buffer=*/true);
}

ModuleRange<Module> Module::modules() {
  return modules_of(*this);
}
ModuleRange<const Module> Module::modules() const {
  return modules_of(*this);
}
std::vector<NamedModule> Module::named_modules() {
  return named_modules_of(*this);
}
std::vector<ConstNamedModule> Module::named_modules() const {
  return named_modules_of(*this);
}
ModuleRange<Module> Module::children() {
  return children_of(*this);
}
ModuleRange<const Module> Module::children() const {
  return children_of(*this);
}
std::vector<NamedModule> Module::named_children() {
  return named_children_of(*this);
}
std::vector<ConstNamedModule> Module::named_children() const {
  return named_children_of(*this);
}

}  // namespace tessera::nn
