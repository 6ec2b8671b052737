#include "nn/checkpoint_modules.h"

#include <regex>
#include <set>

#include "tensor/error.h"

namespace tessera::nn {
namespace {

bool can_be_called(const Module& module) {
  return module.has_forward() && !module.is_container();
}

bool is_list(const Module& module) {
  return module.kind() == "ModuleList" || module.kind() == "Sequential";
}

std::string kinds_of(const Module& model) {
  std::set<std::string> kinds;
  model.for_each([&kinds](const Module& module) {
    if (can_be_called(module)) kinds.insert(module.kind());
  });
  std::string list;
  for (const std::string& kind : kinds) list += (list.empty() ? "" : ", ") + kind;
  return list.empty() ? "no modules that are called" : list;
}

std::vector<std::string> choose(Module& model, const std::function<bool(const Module&)>& predicate,
                                const std::vector<std::string>& keep, const std::string& what) {
  std::vector<std::string> names;
  model.for_each([&](Module& module) {
    if (!can_be_called(module) || !predicate(module)) return;
    module.set_checkpointed(true, keep);
    names.push_back(module.full_name());
  });
  require<ConfigError>(!names.empty(), "activation checkpointing: ", what, " chooses no module of ",
                       model.kind(), ", which has ", kinds_of(model));
  return names;
}

}  // namespace

std::vector<std::string> checkpoint_where(Module& model, const std::function<bool(const Module&)>& predicate,
                                          const std::vector<std::string>& keep) {
  return choose(model, predicate, keep, "the predicate");
}

std::vector<std::string> checkpoint_matching(Module& model, const std::string& pattern,
                                             const std::vector<std::string>& keep) {
  std::regex expression;
  try {
    expression = std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw ConfigError(
        text("activation checkpointing: expected a regular expression, got '", pattern, "': ", error.what()));
  }
  const auto is_matched = [&expression](const Module& module) {
    return std::regex_match(module.kind(), expression) || std::regex_match(module.full_name(), expression);
  };
  return choose(model, is_matched, keep, "'" + pattern + "'");
}

std::vector<std::string> checkpoint_every_kth(Module& model, int64_t k,
                                              const std::vector<std::string>& keep) {
  require<ConfigError>(k >= 0, "activation checkpointing: expected an interval of at least 0, got ", k);
  if (k == 0) return {};
  std::set<const Module*> chosen;
  const std::function<void(const Module&)> visit = [&](const Module& module) {
    const std::span<const Module::Child> children = module.child_entries();
    for (size_t i = 0; i < children.size(); ++i) {
      if (!is_list(module))
        visit(*children[i].module);
      else if (i % static_cast<size_t>(k) == 0)
        chosen.insert(children[i].module.get());
    }
  };
  visit(model);
  require<ConfigError>(!chosen.empty(), "activation checkpointing: interval ", k, ": ", model.kind(),
                       " has no list of layers (nn::ModuleList, nn::Sequential); choose modules by kind or "
                       "name among ",
                       kinds_of(model));
  return choose(
      model, [&chosen](const Module& module) { return chosen.contains(&module); }, keep,
      text("interval ", k));
}

void end_checkpointing(Module& model) {
  model.for_each([](Module& module) { module.set_checkpointed(false); });
}

}  // namespace tessera::nn
