#pragma once  // not in tessera.h

#include <string>

namespace tessera::training {

/// What gave a configuration's value.
enum class Source {
  standard,    ///< the default
  preset,      ///< a preset, a set of values with a name
  checkpoint,  ///< the run that is resumed
  file,        ///< a configuration file
  flag,        ///< the command line
  program,     ///< the program's code
  derived      ///< computed from other values: "auto", or a value that was left out
};

/// What gave a value, and where.
struct Origin {
  Source source = Source::standard;  ///< the kind of origin
  /// "run.json:12" of a file, "--max-steps" of a flag, the preset's name, the rule of a derived value.
  std::string place = {};
};

/// "default", "preset nano", "file run.json:12", "flag --max-steps", "derived: batch_size / ranks".
std::string to_string(const Origin& origin);

}  // namespace tessera::training
