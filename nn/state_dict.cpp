// Loading of values by name.

#include "nn/state_dict.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "nn/mixed_precision.h"
#include "nn/module.h"
#include "nn/sequence/hold.h"
#include "tensor/ops/elementwise/cast.h"

namespace tessera::nn {

namespace {

/// For every further name of a tied parameter its first name, which state dicts use.
std::unordered_map<std::string, std::string> first_names_of_tied(const Module& module) {
  std::unordered_map<const VariableImpl*, std::string> first;
  std::unordered_map<std::string, std::string> others;
  module.for_each_entry([&](const std::string& name, const Module::Entry& entry) {
    if (entry.is_buffer) return;
    const auto [found, is_first] = first.emplace(entry.variable.impl().get(), name);
    if (!is_first) others.emplace(name, found->second);
  });
  return others;
}

bool same_values(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.to(cpu()).contiguous().raw_data(), b.to(cpu()).contiguous().raw_data(),
                     static_cast<size_t>(a.nbytes())) == 0;
}

/// `state` with tied parameters under their first names, each once, and without what other ranks hold.
StateDict with_first_names(const Module& module, const StateDict& state) {
  const std::unordered_map<std::string, std::string> tied = first_names_of_tied(module);
  const std::set<std::string> elsewhere = names_held_elsewhere(module);
  std::unordered_set<std::string> given;
  std::unordered_map<std::string, const NamedTensor*> by_first_name;
  StateDict result;
  for (const NamedTensor& entry : state) {
    require<ValueError>(given.insert(entry.name).second, "load_state_dict: '", entry.name,
                        "' is given twice");
    if (elsewhere.contains(entry.name)) continue;
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

/// Loading `given` into the tensors of `own`: all comparisons, and then the copies.
class Loading {
 public:
  Loading(const StateDict& own, const StateDict& given) : own_(own), given_(given) {
    for (const NamedTensor& entry : own) targets_.emplace(entry.name, entry.tensor);
  }

  /// The names that one side alone has: problems with `strict`.
  LoadResult compare_names(bool strict) {
    std::unordered_set<std::string> names;
    for (const NamedTensor& entry : given_) names.insert(entry.name);
    LoadResult result;
    for (const NamedTensor& entry : own_) {
      if (names.contains(entry.name)) continue;
      result.missing_keys.push_back(entry.name);
      if (strict) problems_.add("'", entry.name, "' ", entry.tensor.shape(), " is missing");
    }
    for (const NamedTensor& entry : given_) {
      if (targets_.contains(entry.name)) continue;
      result.unexpected_keys.push_back(entry.name);
      if (strict) problems_.add("unexpected '", entry.name, "': there is no such parameter or buffer");
    }
    other_names_ = !problems_.empty();
    return result;
  }

  /// Shapes, dtypes and devices of the names that both have.
  void compare_tensors() {
    for_each_pair([this](const NamedTensor& entry, const Tensor& target) {
      if (target.shape() != entry.tensor.shape()) {
        problems_.add("'", entry.name, "' expects ", target.shape(), ", got ", entry.tensor.shape());
        other_shapes_ = true;
      } else if (is_floating(target.dtype()) != is_floating(entry.tensor.dtype())) {
        problems_.add("'", entry.name, "' expects ", target.dtype(), ", got ", entry.tensor.dtype());
      }
      if (target.is_meta() && !on_meta_) on_meta_ = &entry.name;
    });
  }

  /// Throws the problems that the comparisons found.
  void throw_problems(const std::string& subject) const {
    if (!problems_.empty()) {
      const std::string message = problems_.message(subject);
      if (other_names_) throw ValueError(message);
      if (other_shapes_) throw ShapeError(message);
      throw DTypeError(message);
    }
    require<DeviceError>(!on_meta_, subject, ": '", on_meta_ ? *on_meta_ : "",
                         "' is on meta; materialize the module first");
  }

  void copy() {
    for_each_pair([](const NamedTensor& entry, const Tensor& target) {
      target.copy_from(ops::cast(entry.tensor, target.dtype()));
    });
  }

 private:
  template <class Visit>
  void for_each_pair(const Visit& visit) {
    for (const NamedTensor& entry : given_)
      if (const auto target = targets_.find(entry.name); target != targets_.end())
        visit(entry, target->second);
  }

  const StateDict& own_;
  const StateDict& given_;
  std::unordered_map<std::string, Tensor> targets_;
  Problems problems_;
  bool other_names_ = false, other_shapes_ = false;
  const std::string* on_meta_ = nullptr;
};

}  // namespace

LoadResult load_into(const StateDict& own, const StateDict& given, bool strict, const std::string& subject) {
  Loading loading(own, given);
  LoadResult result = loading.compare_names(strict);
  loading.compare_tensors();
  loading.throw_problems(subject);
  loading.copy();
  return result;
}

LoadResult Module::load_state_dict(const StateDict& state, bool strict) {
  const LoadResult result =
      load_into(state_dict(), with_first_names(*this, state), strict, text("load_state_dict of ", kind()));
  round_masters(*this);
  return result;
}

}  // namespace tessera::nn
