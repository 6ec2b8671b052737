#pragma once

#include <cstdint>
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

/// Throws ConfigError, naming optimizer and option, unless the value is finite and above 0.
void require_above_zero(const std::string& optimizer, const char* option, double value);
/// Throws ConfigError, naming optimizer and option, unless the count is at least `least`.
void require_at_least(const std::string& optimizer, const char* option, int64_t count, int64_t least);

/// One option by name. One of the members after the name is set.
template <class Options>
struct OptionField {
  const char* name;                        ///< in saved state
  double Options::*value = nullptr;        ///< the member of an option that is a number
  bool Options::*flag = nullptr;           ///< the member of a flag
  int64_t Options::*count = nullptr;       ///< the member of an integer
  double& (*element)(Options&) = nullptr;  ///< returns an element of a member: `o.betas[0]`

  /// The option as a number.
  double get(Options options) const {
    if (value) return options.*value;
    if (flag) return static_cast<double>(options.*flag);
    return count ? static_cast<double>(options.*count) : element(options);
  }
  /// Sets the option.
  void set(Options& options, double number) const {
    if (value)
      options.*value = number;
    else if (flag)
      options.*flag = number != 0.0;
    else if (count)
      options.*count = static_cast<int64_t>(number);
    else
      element(options) = number;
  }
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
    for (const OptionField<Options>& field : fields) values.push_back({field.name, field.get(options)});
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
      field.set(options, saved[i].value);
    }
    require_in_range(optimizer, options);
    return options;
  }
};

}  // namespace tessera::optim
