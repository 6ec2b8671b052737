#pragma once  // not in tessera.h

#include <string>
#include <utility>
#include <vector>

#include "dist/train/config/field_table.h"

namespace tessera::training {

/// What a command line says about a configuration.
struct Arguments {
  /// Fields by name with their text, in the order of the table.
  std::vector<std::pair<std::string, std::string>> values;
  std::string config_file;  ///< of --config: a file with values by name; "" where it was not given
  bool explain = false;     ///< --explain: print the values, and stop
  std::string help;         ///< the text of --help where it was asked for; then nothing else is set
};

/// Reads a program's arguments, without its name: a flag for each field (`flag_of`), --config, --explain and
/// --help. A field of true or false may stand without a value, which is true. Throws ConfigError naming the
/// argument, with the nearest flag for one that there is not. `expected` is `expected_values` of the fields'
/// table.
Arguments parse_arguments(const std::vector<FieldValue>& fields, const std::vector<std::string>& expected,
                          const std::string& program, std::vector<std::string> arguments);

/// Sets the values of a file, if --config names one, and those of the flags, which take precedence. Throws as
/// `parse_arguments` and `Resolved::set`.
template <class Config>
Arguments apply_arguments(Resolved<Config>& config, const std::string& program,
                          std::vector<std::string> arguments) {
  Arguments parsed =
      parse_arguments(config.values(), expected_values(config.table()), program, std::move(arguments));
  if (!parsed.config_file.empty()) {
    const JsonDocument document = JsonDocument::read(parsed.config_file);
    config.set_all(document.root());
  }
  for (const auto& [name, value] : parsed.values) config.set(name, value, {Source::flag, flag_of(name)});
  return parsed;
}

}  // namespace tessera::training
