#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/by_name/option_value.h"

namespace tessera::optim {

/// What giving an option does.
enum class OptionEffect {
  honoured,      ///< the optimizer uses it
  no_effect,     ///< it is accepted; the note says why nothing depends on it
  only_default,  ///< it is accepted with its default; the note says why no other value is
  refused        ///< it is an error; the note says what to write
};

/// An option of an optimizer of DeepSpeed's configuration.
struct OptimizerOption {
  const char* optimizer;                     ///< "AdamW"
  const char* key;                           ///< "weight_decay"
  OptionKind kind;                           ///< of its values
  std::optional<OptionValue> default_value;  ///< DeepSpeed's; nothing: the note gives it
  OptionEffect effect;                       ///< see there
  const char* note;                          ///< what it is, or the reason of its effect
};

/// Every option of every optimizer that `make_optimizer` makes, by optimizer.
std::span<const OptimizerOption> optimizer_options();

/// The names of these optimizers.
std::vector<std::string> optimizer_names();

/// All optimizers and their options as text, a line each: key, kind, default, effect and note.
std::string optimizer_reference();

/// The options of an optimizer by name: the values given, and the defaults of the others.
class OptimizerValues {
 public:
  /// `optimizer`: one of `optimizer_names`. Throws ConfigError, naming optimizer and option, for one that it
  /// does not have (with the nearest that it has), given twice, of another kind, or refused.
  OptimizerValues(std::string_view optimizer, std::span<const NamedValue> given);

  /// Whether it was given.
  bool is_given(const std::string& key) const { return values_.at(key).given; }
  /// A value by its key, of the kind in the name.
  /// @{
  double number(const std::string& key) const;
  bool flag(const std::string& key) const;
  const std::string& words(const std::string& key) const;
  std::array<double, 2> pair(const std::string& key) const;
  /// @}

 private:
  struct Value {
    std::optional<OptionValue> value;
    bool given;
  };
  std::map<std::string, Value> values_;
};

}  // namespace tessera::optim
