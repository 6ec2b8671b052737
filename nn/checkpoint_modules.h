#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

/// Activation checkpointing of a model's modules from outside, without a line in the model (Chen et al.,
/// "Training Deep Nets with Sublinear Memory Cost", 2016): forward drops what operations within a chosen
/// module save, and backward runs the module again. Values and gradients have the same bits; choices nest.
///
///     nn::checkpoint_every<models::Block>(gpt);                              // by type
///     nn::checkpoint_matching(gpt, "Mlp|blocks\\.[0-5]");                    // by kind or name
///     nn::checkpoint_where(gpt, [](const nn::Module& m) { ... }, {"linear"}); // by predicate
///     gpt.at("blocks.3").set_checkpointed(true);                             // by hand
///
/// A list of layers has more choices (nn/sequence/checkpoint_layers.h): several layers as one segment, or
/// the cheapest choice for a number of bytes.
namespace tessera::nn {

/// Calls of the modules at and below `model` for which `predicate` holds are checkpointed from here on, and
/// keep the results of the operations named in `keep` (CheckpointOptions::keep). A ModuleList or ModuleDict
/// is not chosen, nor is a module without a forward. Returns the full names of those chosen, parents first.
/// Throws ConfigError where none is.
std::vector<std::string> checkpoint_where(Module& model, const std::function<bool(const Module&)>& predicate,
                                          const std::vector<std::string>& keep = {});
/// Modules of a type.
template <class M>
std::vector<std::string> checkpoint_every(Module& model, const std::vector<std::string>& keep = {}) {
  return checkpoint_where(
      model, [](const Module& module) { return module.as<M>() != nullptr; }, keep);
}
/// Modules of which the kind ("Block") or the full name ("blocks.3") is matched, as a whole, by the regular
/// expression `pattern` (ECMAScript). Throws ConfigError for an expression that is none, and for one that
/// matches nothing, naming the kinds that the model has.
std::vector<std::string> checkpoint_matching(Module& model, const std::string& pattern,
                                             const std::vector<std::string>& keep = {});
/// Layers 0, k, 2k, ... of each list of modules in the model (ModuleList, Sequential); of a list within a
/// layer of another one none. None for k = 0. Throws ConfigError for a negative k, and for a model without
/// such a list.
std::vector<std::string> checkpoint_every_kth(Module& model, int64_t k,
                                              const std::vector<std::string>& keep = {});
/// Ends all of it at and below `model`.
void end_checkpointing(Module& model);

}  // namespace tessera::nn
