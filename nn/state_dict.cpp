// Loading of values by name.

#include "nn/state_dict.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "nn/mixed_precision.h"
#include "nn/module.h"
#include "tensor/ops/cast.h"

namespace tessera::nn {

namespace {

/// Calls visit(relative name, slot) for every parameter below `module`.
void visit_parameters(const Module& module, const std::string& prefix,
                      const std::function<void(const std::string&, const Module::Slot&)>& visit) {
  for (const Module::Slot& slot : module.slots())
    if (!slot.is_buffer) visit(prefix + slot.name, slot);
  for (const Module::Child& child : module.child_slots())
    visit_parameters(*child.module, prefix + child.name + ".", visit);
}

/// For every further name of a tied parameter its first name, which state dicts use.
std::unordered_map<std::string, std::string> first_names_of_tied(const Module& module) {
  std::unordered_map<const VariableImpl*, std::string> first;
  std::unordered_map<std::string, std::string> others;
  visit_parameters(module, "", [&](const std::string& name, const Module::Slot& slot) {
    const auto [found, is_first] = first.emplace(slot.variable.impl().get(), name);
    if (!is_first) others.emplace(name, found->second);
  });
  return others;
}

bool same_values(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.contiguous().raw_data(), b.contiguous().raw_data(), static_cast<size_t>(a.nbytes())) ==
             0;
}

/// `state` with tied parameters under their first names, each once.
StateDict with_first_names(const Module& module, const StateDict& state) {
  const std::unordered_map<std::string, std::string> tied = first_names_of_tied(module);
  std::unordered_set<std::string> given;
  std::unordered_map<std::string, const NamedTensor*> by_first_name;
  StateDict result;
  for (const NamedTensor& entry : state) {
    require<ValueError>(given.insert(entry.name).second, "load_state_dict: '", entry.name,
                        "' is given twice");
    const auto other = tied.find(entry.name);
    const std::string& name = other == tied.end() ? entry.name : other->second;
    const auto [earlier, is_new] = by_first_name.emplace(name, &entry);
    require<ValueError>(is_new || same_values(earlier->second->tensor, entry.tensor), "load_state_dict: '",
                        earlier->second->name, "' and '", entry.name, "' are one parameter of ",
                        module.kind(), ", and their values differ");
    if (is_new) result.push_back({name, entry.tensor});
  }
  return result;
}

/// The entries that do not fit, a line each.
class Problems {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    lines_.push_back(text(parts...));
  }
  bool empty() const { return lines_.empty(); }
  std::string message(const std::string& subject) const {
    if (lines_.size() == 1) return subject + ": " + lines_[0];
    std::string all = text(subject, ": ", lines_.size(), " entries do not fit");
    for (const std::string& line : lines_) all += "\n  " + line;
    return all;
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

LoadResult load_into(const StateDict& own, const StateDict& given, bool strict, const std::string& subject) {
  std::unordered_map<std::string, Tensor> targets;
  for (const NamedTensor& entry : own) targets.emplace(entry.name, entry.tensor);
  LoadResult result;
  Problems problems;
  bool other_names = false, other_shapes = false;
  std::unordered_set<std::string> names;
  const std::string* on_meta = nullptr;
  for (const NamedTensor& entry : given) names.insert(entry.name);
  for (const NamedTensor& entry : own) {
    if (names.contains(entry.name)) continue;
    result.missing_keys.push_back(entry.name);
    if (strict) problems.add("'", entry.name, "' ", entry.tensor.shape(), " is missing");
  }
  for (const NamedTensor& entry : given) {
    const auto target = targets.find(entry.name);
    if (target != targets.end()) continue;
    result.unexpected_keys.push_back(entry.name);
    if (strict) problems.add("unexpected '", entry.name, "': there is no such parameter or buffer");
  }
  other_names = !problems.empty();
  for (const NamedTensor& entry : given) {
    const auto target = targets.find(entry.name);
    if (target == targets.end()) continue;
    const Tensor& tensor = target->second;
    if (tensor.shape() != entry.tensor.shape()) {
      problems.add("'", entry.name, "' expects ", tensor.shape(), ", got ", entry.tensor.shape());
      other_shapes = true;
    } else if (is_floating(tensor.dtype()) != is_floating(entry.tensor.dtype())) {
      problems.add("'", entry.name, "' expects ", tensor.dtype(), ", got ", entry.tensor.dtype());
    }
    if (tensor.is_meta() && !on_meta) on_meta = &entry.name;
  }
  if (!problems.empty()) {
    const std::string message = problems.message(subject);
    if (other_names) throw ValueError(message);
    if (other_shapes) throw ShapeError(message);
    throw DTypeError(message);
  }
  require<DeviceError>(!on_meta, subject, ": '", on_meta ? *on_meta : "",
                       "' is on meta; materialize the module first");
  for (const NamedTensor& entry : given)
    if (const auto target = targets.find(entry.name); target != targets.end())
      target->second.copy_from(ops::cast(entry.tensor, target->second.dtype()));
  return result;
}

LoadResult Module::load_state_dict(const StateDict& state, bool strict) {
  const LoadResult result =
      load_into(state_dict(), with_first_names(*this, state), strict, text("load_state_dict of ", kind()));
  round_masters(*this);
  return result;
}

}  // namespace tessera::nn
