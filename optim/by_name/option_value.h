#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tessera::optim {

/// The value of an option in a configuration: what a JSON file can give.
using OptionValue = std::variant<bool, int64_t, double, std::string, std::vector<double>>;

/// An option of a configuration.
struct NamedValue {
  std::string name;   ///< "weight_decay"
  OptionValue value;  ///< of the option's kind
};

/// What an option takes.
enum class OptionKind {
  flag,    ///< true or false
  count,   ///< an integer
  number,  ///< an integer or floating number
  text,    ///< a text
  pair     ///< a list of two numbers
};

/// "true or false", "an integer", "a number", "a text", "a list of two numbers".
std::string to_string(OptionKind kind);

/// "true", "3", "0.1", "'auto'", "[0.9, 0.999]".
std::string value_text(const OptionValue& value);

/// Whether a value is of a kind.
bool is_of_kind(const OptionValue& value, OptionKind kind);

}  // namespace tessera::optim
