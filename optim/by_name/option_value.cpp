#include "optim/by_name/option_value.h"

#include "tensor/error.h"

namespace tessera::optim {

std::string to_string(OptionKind kind) {
  switch (kind) {
    case OptionKind::flag:
      return "true or false";
    case OptionKind::count:
      return "an integer";
    case OptionKind::number:
      return "a number";
    case OptionKind::text:
      return "a text";
    case OptionKind::pair:
      return "a list of two numbers";
  }
  return "";
}

std::string value_text(const OptionValue& value) {
  if (const auto* words = std::get_if<std::string>(&value)) return "'" + *words + "'";
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    std::string list;
    for (const double number : *numbers) list += text(list.empty() ? "" : ", ", number);
    return "[" + list + "]";
  }
  if (const auto* flag = std::get_if<bool>(&value)) return text(*flag);
  if (const auto* count = std::get_if<int64_t>(&value)) return text(*count);
  return text(std::get<double>(value));
}

bool is_of_kind(const OptionValue& value, OptionKind kind) {
  const auto* numbers = std::get_if<std::vector<double>>(&value);
  switch (kind) {
    case OptionKind::flag:
      return std::holds_alternative<bool>(value);
    case OptionKind::count:
      return std::holds_alternative<int64_t>(value);
    case OptionKind::number:
      return std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value);
    case OptionKind::text:
      return std::holds_alternative<std::string>(value);
    case OptionKind::pair:
      return numbers != nullptr && numbers->size() == 2;
  }
  return false;
}

}  // namespace tessera::optim
