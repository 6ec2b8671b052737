#pragma once  // not in tessera.h

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/train/config/field_table.h"

namespace CLI {
class App;
}

namespace tessera::training {

/// Fields by name with the text of their flags, in the order of a table.
using GivenValues = std::vector<std::pair<std::string, std::string>>;

/// A flag for each field on a command of CLI11 (`flag_of`), for a program with subcommands of its own. A
/// field of true or false may stand without a value, which is true. It must outlive the parsing.
class FieldFlags {
 public:
  /// Adds the flags to `command`.
  FieldFlags(CLI::App& command, std::vector<FieldValue> fields);
  FieldFlags(const FieldFlags&) = delete;
  FieldFlags& operator=(const FieldFlags&) = delete;

  /// After parsing: those that were given.
  GivenValues given() const;

 private:
  std::vector<FieldValue> fields_;
  std::vector<std::optional<std::string>> texts_;
};

/// Sets the fields of flags that were given. Throws ConfigError naming the flag, what is expected and what
/// came.
template <class Config>
void set_given(Resolved<Config>& config, const GivenValues& values) {
  for (const auto& [name, value] : values) config.set(name, value, {Source::flag, flag_of(name)});
}

/// What a command line says about a configuration.
struct Arguments {
  GivenValues values;       ///< of the flags
  std::string config_file;  ///< of --config: a file with values by name; "" where it was not given
  bool explain = false;     ///< --explain: print the values, and stop
  std::string help;         ///< the text of --help where it was asked for; then nothing else is set
};

/// Reads a program's arguments, without its name: a flag for each field (`flag_of`), --config, --explain and
/// --help. A field of true or false may stand without a value, which is true. Throws ConfigError naming the
/// argument, with the nearest flag for one that there is not.
Arguments parse_arguments(const std::vector<FieldValue>& fields, const std::string& program,
                          std::vector<std::string> arguments);

/// Sets the values of a file, if --config names one, and those of the flags, which take precedence. Throws as
/// `parse_arguments` and `Resolved::set`.
template <class Config>
Arguments apply_arguments(Resolved<Config>& config, const std::string& program,
                          std::vector<std::string> arguments) {
  Arguments parsed = parse_arguments(config.values(), program, std::move(arguments));
  if (!parsed.config_file.empty()) {
    const JsonDocument document = JsonDocument::read(parsed.config_file);
    config.set_all(document.root());
  }
  set_given(config, parsed.values);
  return parsed;
}

}  // namespace tessera::training
