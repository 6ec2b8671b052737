#include "dist/train/log/log_filter.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "tensor/error.h"
#include "tensor/nearest_name.h"

namespace tessera::training {
namespace {

constexpr const char* names[] = {"debug", "info", "warning", "error", "off"};
constexpr std::string_view every_component = "all";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Letters, digits and _, in parts between dots.
bool is_component(std::string_view name) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
  return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == name.npos &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

LogLevel parse_level(std::string_view name, const std::string& where) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found != std::end(names)) return static_cast<LogLevel>(found - std::begin(names));
  const std::string near = nearest_name(name, std::vector<std::string>(std::begin(names), std::end(names)));
  throw ConfigError(text(where, "expected a level, one of debug, info, warning, error and off, got '", name,
                         "'", near.empty() ? "" : text("; the nearest is '", near, "'")));
}

std::pair<std::string, LogLevel> parse_rule(std::string_view rule, const std::string& where) {
  const bool has_sign = rule.starts_with('+') || rule.starts_with('-');
  const std::string_view named = has_sign ? rule.substr(1) : rule;
  const size_t equals = named.find('=');
  const std::string_view component = named.substr(0, equals);
  require<ConfigError>(is_component(component), where,
                       "expected a component, of letters, digits, _ and dots, got '", component, "'");
  require<ConfigError>(has_sign || equals != named.npos, where, "expected +", component, ", -", component,
                       " or ", component, "=level");
  require<ConfigError>(!rule.starts_with('-') || equals == named.npos, where,
                       "expected no level after -, which silences the component");
  if (rule.starts_with('-')) return {std::string(component), LogLevel::off};
  if (equals == named.npos) return {std::string(component), LogLevel::debug};
  return {std::string(component), parse_level(named.substr(equals + 1), where)};
}

}  // namespace

const char* name_of(LogLevel level) {
  return names[static_cast<int>(level)];
}

LogFilter LogFilter::parse(std::string_view rules, const std::string& place) {
  LogFilter filter;
  for (std::string_view left = trimmed(rules); !left.empty();) {
    const size_t comma = left.find(',');
    const std::string_view rule = trimmed(left.substr(0, comma));
    auto [component, level] = parse_rule(rule, text(place, ": '", rule, "': "));
    for (const auto& [other, unused] : filter.levels_)
      require<ConfigError>(other != component, place, ": '", rule, "': expected one rule for '", component,
                           "', got two");
    filter.levels_.emplace_back(std::move(component), level);
    require<ConfigError>(comma == left.npos || comma + 1 < left.size(), place, ": '", rules,
                         "': expected a rule after the last comma");
    left = comma == left.npos ? std::string_view() : left.substr(comma + 1);
  }
  return filter;
}

LogFilter LogFilter::from_environment(const char* variable) {
  const char* const rules = std::getenv(variable);
  return rules ? parse(rules, variable) : LogFilter();
}

LogLevel LogFilter::level(std::string_view component) const {
  LogLevel level = LogLevel::info;
  size_t longest = 0;
  for (const auto& [name, of_name] : levels_) {
    const bool is_all = name == every_component;
    const bool covers = component == name || (component.starts_with(name) && component[name.size()] == '.');
    const size_t length = is_all ? 0 : name.size();
    if ((is_all || covers) && length >= longest) {
      level = of_name;
      longest = length;
    }
  }
  return level;
}

}  // namespace tessera::training
