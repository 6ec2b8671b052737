#include "optim/parameter_groups.h"

#include <string_view>

namespace tessera::optim {
namespace {

/// Whether `name` is what `pattern` stands for, or below it.
bool names_parameter(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty() || name[0] == '.';
  if (pattern[0] != '*')
    return !name.empty() && name[0] == pattern[0] && names_parameter(pattern.substr(1), name.substr(1));
  for (size_t skipped = 0; skipped <= name.size(); ++skipped)
    if (names_parameter(pattern.substr(1), name.substr(skipped))) return true;
  return false;
}

}  // namespace

std::vector<ParameterList> split_by_pattern(const ParameterList& parameters,
                                            const std::vector<std::string>& patterns) {
  std::vector<ParameterList> lists;
  for (size_t i = 0; i <= patterns.size(); ++i) {
    lists.push_back(parameters.where([&](const NamedParameter& parameter) {
      for (size_t earlier = 0; earlier < i; ++earlier)
        if (names_parameter(patterns[earlier], parameter.name)) return false;
      return i == patterns.size() || names_parameter(patterns[i], parameter.name);
    }));
    if (i == patterns.size() || !lists.back().empty()) continue;
    std::string names;
    for (size_t p = 0; p < parameters.size() && p < 8; ++p)
      names += (p == 0 ? "" : ", ") + parameters[p].name;
    throw ConfigError(text("split_by_pattern: '", patterns[i],
                           "' names no parameter that an earlier pattern leaves; there are ", names,
                           parameters.size() > 8 ? ", ..." : ""));
  }
  return lists;
}

DecaySplit split_by_decay(const ParameterList& parameters) {
  return {parameters.where([](const NamedParameter& p) { return p.full_shape().ndim() >= 2; }),
          parameters.where([](const NamedParameter& p) { return p.full_shape().ndim() < 2; })};
}

}  // namespace tessera::optim
