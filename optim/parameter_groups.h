#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "optim/optimizer.h"

namespace tessera::optim {

/// The result of `split_by_decay`.
struct DecaySplit {
  ParameterList decay;     ///< of two dimensions and more: matrices, embeddings, convolutions
  ParameterList no_decay;  ///< biases and the weights of norms
};

/// Splits parameters into those with and without weight decay, as nanoGPT does: by their number of
/// dimensions, for a shard those of the full parameter.
DecaySplit split_by_decay(const ParameterList& parameters);

/// Two groups with the same options, the second one without weight decay:
/// `AdamW adam(decay_groups(gpt.parameters(), AdamWOptions{.lr = 6e-4, .weight_decay = 0.1}));`
template <class Options>
std::vector<ParameterGroup<Options>> decay_groups(const ParameterList& parameters, const Options& options) {
  const DecaySplit split = split_by_decay(parameters);
  Options without = options;
  without.weight_decay = 0.0;
  return {{split.decay, options}, {split.no_decay, without}};
}

/// Options of the parameters that a pattern names.
template <class Options>
struct GroupRule {
  /// A submodule or a parameter by its full name, in which `*` stands for any characters: "encoder" for all
  /// below it, "blocks.*.attn", "*.bias".
  std::string pattern;
  Options options;  ///< of the group
};

/// For each pattern the parameters that it names and no earlier one does; at the end those that none names.
/// Throws ConfigError for a pattern that names no parameter, or only parameters of earlier patterns.
std::vector<ParameterList> split_by_pattern(const ParameterList& parameters,
                                            const std::vector<std::string>& patterns);

/// A group for each rule, the first that names a parameter has it, and one with `rest` for the others, if
/// there are any:
/// `AdamW adam(pattern_groups(net.parameters(), {{"encoder", {.lr = 1e-5}}}, AdamWOptions{.lr = 1e-3}));`
/// Throws ConfigError as `split_by_pattern`.
template <class Options>
std::vector<ParameterGroup<Options>> pattern_groups(
    const ParameterList& parameters, const std::type_identity_t<std::vector<GroupRule<Options>>>& rules,
    const Options& rest) {
  std::vector<std::string> patterns;
  for (const GroupRule<Options>& rule : rules) patterns.push_back(rule.pattern);
  const std::vector<ParameterList> lists = split_by_pattern(parameters, patterns);
  std::vector<ParameterGroup<Options>> groups;
  for (size_t i = 0; i < rules.size(); ++i) groups.push_back({lists[i], rules[i].options});
  if (!lists.back().empty()) groups.push_back({lists.back(), rest});
  return groups;
}

}  // namespace tessera::optim
