#pragma once

#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace tessera::optim {

/// Throws ConfigError, naming optimizer and option, unless the value is finite and at least 0.
void require_not_negative(const std::string& optimizer, const char* option, double value);
/// Throws ConfigError, naming optimizer and option, unless 0 <= value < 1.
void require_fraction(const std::string& optimizer, const char* option, double value);

/// One option of a group by name: a value or a flag.
template <class Group>
struct OptionField {
  const char* name;
  double Group::*value = nullptr;
  bool Group::*flag = nullptr;
};

/// An Optimizer with the groups of a fused update, which reads and writes their options by name.
/// `Group` is one of tensor/ops/optimizer_update.h.
template <class Group>
class FusedOptimizer : public Optimizer {
 protected:
  using Fields = std::span<const OptionField<Group>>;
  /// Throws ConfigError, naming `optimizer`, for options out of range.
  using Check = void (*)(const std::string& optimizer, const Group& group);

  FusedOptimizer(std::string name, Fields fields, Check check)
      : Optimizer(std::move(name)), fields_(fields), check_(check) {}

  void add_group(const ParameterList& parameters, double lr, Group group) {
    check_(this->name(), group);
    group.lr = Optimizer::add_group(parameters, lr);
    groups_.push_back(std::move(group));
  }

  std::vector<NamedOption> options(int group) const override {
    std::vector<NamedOption> options;
    const Group& from = groups_[group];
    for (const OptionField<Group>& field : fields_)
      options.push_back(
          {field.name, field.value ? from.*field.value : static_cast<double>(from.*field.flag)});
    return options;
  }

  void load_options(int group, std::span<const NamedOption> saved, bool apply) override {
    Group loaded = groups_[group];
    require<CheckpointError>(saved.size() == fields_.size(), this->name(), ": expected ", fields_.size(),
                             " saved options of group ", group, ", got ", saved.size());
    for (size_t i = 0; i < fields_.size(); ++i) {
      const OptionField<Group>& field = fields_[i];
      require<CheckpointError>(saved[i].name == field.name, this->name(), ": expected the saved option '",
                               field.name, "' of group ", group, ", got '", saved[i].name, "'");
      if (field.value)
        loaded.*field.value = saved[i].value;
      else
        loaded.*field.flag = saved[i].value != 0.0;
    }
    check_(this->name(), loaded);
    if (apply) groups_[group] = std::move(loaded);
  }

  std::vector<Group> groups_;

 private:
  Fields fields_;
  Check check_;
};

}  // namespace tessera::optim
