#include "dist/train/config/field.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tensor/error.h"

namespace tessera::training {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 14 does not derive it

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// The shortest text that reads back as the same value.
template <class Number>
std::string shortest(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

/// Whether all of `from` is a number of T's type: also "2e8" for an integer.
template <class Number>
bool read_number(std::string_view from, Number& value) {
  if (from.starts_with('+')) from.remove_prefix(1);
  const char* const end = from.data() + from.size();
  const auto [stop, error] = std::from_chars(from.data(), end, value);
  if (error == std::errc() && stop == end) return std::isfinite(static_cast<double>(value));
  if constexpr (std::is_integral_v<Number>) {
    double number = 0;
    const bool is_whole =
        read_number(from, number) && number == std::floor(number) && std::abs(number) <= 0x1p53;
    if (!is_whole || number < static_cast<double>(std::numeric_limits<Number>::min()) ||
        number > static_cast<double>(std::numeric_limits<Number>::max()))
      return false;
    value = static_cast<Number>(number);
    return true;
  }
  return false;
}

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      (out += "\\u00") += {digits[(c >> 4) & 15], digits[c & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A limit as text; whole numbers in full.
std::string limit_text(double limit) {
  const bool is_whole = limit == std::floor(limit) && std::abs(limit) <= 0x1p53;
  return is_whole ? shortest(static_cast<int64_t>(limit)) : shortest(limit);
}

/// From 2^53 on a high limit is that of the type, which is not said.
std::string range_of(const Limits& limits) {
  const bool has_low = limits.low > std::numeric_limits<double>::lowest(), has_high = limits.high < 0x1p53;
  const std::string low = limit_text(limits.low), high = limit_text(limits.high);
  if (has_low && limits.is_below_high) return text(" of at least ", low, " and below ", high);
  if (has_low && has_high) return text(" from ", low, " to ", high);
  if (has_low) return text(" of at least ", low);
  return has_high ? text(limits.is_below_high ? " below " : " of at most ", high) : "";
}

bool is_within(const Limits& limits, double value) {
  return value >= limits.low && (limits.is_below_high ? value < limits.high : value <= limits.high);
}

}  // namespace

std::string ChoicePointer::name() const {
  if (path_ && !path_->empty()) return *path_;
  const int value = get_(member_);
  for (const ChoiceName& choice : names_)
    if (choice.value == value) return choice.name;
  return shortest(value);
}

bool ChoicePointer::set(std::string_view name) const {
  const auto found =
      std::find_if(names_.begin(), names_.end(), [&](const auto& each) { return each.name == name; });
  const bool is_file = path_ && found == names_.end() && name.ends_with(suffix_);
  if (path_ && (is_file || found != names_.end())) *path_ = is_file ? name : std::string_view();
  if (found == names_.end()) return is_file;
  set_(member_, found->value);
  return true;
}

std::string flag_of(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string expected_of(const FieldInfo& info, const FieldPointer& at) {
  return std::visit(
      Overloaded{[](const bool*) -> std::string { return "true or false"; },
                 [](const std::string*) -> std::string { return "a text"; },
                 [](const ChoicePointer& choice) {
                   std::string all;
                   const size_t count = choice.names().size();
                   for (size_t i = 0; i < count; ++i)
                     all += text(i == 0 ? "" : i + 1 == count ? " or " : ", ", choice.names()[i].name);
                   if (!choice.suffix().empty()) all += text(", or a file FILE", choice.suffix());
                   return all;
                 },
                 [&]<class T>(const T*) {
                   return (std::is_integral_v<T> ? "a whole number" : "a number") + range_of(info.limits);
                 }},
      at);
}

std::string text_of(const FieldPointer& at) {
  return std::visit(Overloaded{[](const bool* value) -> std::string { return *value ? "true" : "false"; },
                               [](const std::string* value) { return *value; },
                               [](const ChoicePointer& choice) { return choice.name(); },
                               [](const auto* value) { return shortest(*value); }},
                    at);
}

std::string json_of(const FieldPointer& at) {
  const bool is_text = std::holds_alternative<std::string*>(at) || std::holds_alternative<ChoicePointer>(at);
  return is_text ? quoted(text_of(at)) : text_of(at);
}

void check_limits(const FieldInfo& info, const FieldPointer& at, const std::string& place) {
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (std::is_pointer_v<T>)
          if constexpr (is_number<std::remove_pointer_t<T>>)
            require<ConfigError>(is_within(info.limits, static_cast<double>(*value)), place, ": expected ",
                                 expected_of(info, at), ", got ", text_of(at));
      },
      at);
}

void set_text(const FieldInfo& info, const FieldPointer& at, std::string_view value,
              const std::string& place) {
  const bool is_read = std::visit(Overloaded{[&](bool* member) {
                                               *member = value == "true";
                                               return *member || value == "false";
                                             },
                                             [&](std::string* member) {
                                               *member = value;
                                               return true;
                                             },
                                             [&](const ChoicePointer& choice) { return choice.set(value); },
                                             [&](auto* member) { return read_number(value, *member); }},
                                  at);
  require<ConfigError>(is_read, place, ": expected ", expected_of(info, at), ", got '", value, "'");
  check_limits(info, at, place);
}

void set_json(const FieldInfo& info, const FieldPointer& at, const JsonNode& value) {
  const std::string expected = expected_of(info, at);
  std::visit(
      Overloaded{
          [&](bool* member) { *member = value.is_bool() ? value.as_bool() : (value.fail(expected), false); },
          [&](std::string* member) {
            if (!value.is_text()) value.fail(expected);
            *member = value.as_text();
          },
          [&](const ChoicePointer& choice) {
            if (!value.is_text() || !choice.set(value.as_text())) value.fail(expected);
          },
          [&](double* member) {
            if (!value.is_number()) value.fail(expected);
            *member = value.as_number();
          },
          [&]<class T>(T* member) {
            if (!value.is_number()) value.fail(expected);
            const int64_t number = value.as_integer();
            if (!is_within(info.limits, static_cast<double>(number)) || !std::in_range<T>(number))
              value.fail(expected);
            *member = static_cast<T>(number);
          }},
      at);
  check_limits(info, at, value.place());
}

}  // namespace tessera::training
