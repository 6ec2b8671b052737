#pragma once

#include <span>
#include <string>
#include <vector>

#include "optim/optimizer_state.h"
#include "tensor/error.h"

namespace tessera::optim {

/// Throws ConfigError, naming optimizer and option, unless the value is finite and at least 0.
void require_not_negative(const std::string& optimizer, const char* option, double value);
/// Throws ConfigError, naming optimizer and option, unless 0 <= value < 1.
void require_fraction(const std::string& optimizer, const char* option, double value);

/// One option by name: a value or a flag.
template <class Options>
struct OptionField {
  const char* name;                  ///< in saved state
  double Options::*value = nullptr;  ///< the member of an option that is a number
  bool Options::*flag = nullptr;     ///< the member of a flag, where `value` is null
};

/// The options of an optimizer's groups by name, as they are saved, and their check. Without the learning
/// rate, which `Optimizer` keeps.
template <class Options>
struct OptionTable {
  /// In the order in which they are saved.
  std::vector<OptionField<Options>> fields;
  /// Throws ConfigError, naming the optimizer, for options out of range. May be null.
  void (*check)(const std::string& optimizer, const Options& options) = nullptr;

  /// Calls `check`, if any.
  void require_in_range(const std::string& optimizer, const Options& options) const {
    if (check) check(optimizer, options);
  }

  /// The values of `options` by name, in the order of the fields.
  std::vector<NamedOption> values(const Options& options) const {
    std::vector<NamedOption> values;
    for (const OptionField<Options>& field : fields)
      values.push_back(
          {field.name, field.value ? options.*field.value : static_cast<double>(options.*field.flag)});
    return values;
  }

  /// `options` of a group with the saved values. Throws CheckpointError for a missing or an unknown option,
  /// ConfigError for a value out of range.
  Options loaded(const std::string& optimizer, int group, Options options,
                 std::span<const NamedOption> saved) const {
    require<CheckpointError>(saved.size() == fields.size(), optimizer, ": expected ", fields.size(),
                             " saved options of group ", group, ", got ", saved.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      const OptionField<Options>& field = fields[i];
      require<CheckpointError>(saved[i].name == field.name, optimizer, ": expected the saved option '",
                               field.name, "' of group ", group, ", got '", saved[i].name, "'");
      if (field.value)
        options.*field.value = saved[i].value;
      else
        options.*field.flag = saved[i].value != 0.0;
    }
    require_in_range(optimizer, options);
    return options;
  }
};

}  // namespace tessera::optim
