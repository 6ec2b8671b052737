#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

/// A model as a list of layers, each of which takes what the one before returns: what pipelines cut into
/// stages, and checkpointing into segments.
namespace tessera::nn {

/// What passes from a layer to the next: one Variable in most models, ids of tokens as a constant one.
using LayerValues = std::vector<Variable>;

/// A layer of such a list. A module on meta costs no memory, so the whole list is there on every rank, and a
/// rank gives values to its own layers alone (nn/sequence/hold.h).
struct LayerSpec {
  std::string name;  ///< of its module in the model, such as "blocks.3", or a name of its own
  std::string kind;  ///< of its module, such as "Block", or "function"
  /// Those of which it reads parameters, with all below them. One that is in several layers (tied weights)
  /// is held by the stage of each.
  std::vector<const Module*> modules = {};
  /// Calls the layer. It may keep references to the model.
  std::function<LayerValues(const LayerValues&)> run = {};
};

/// The loss of a model that is a list of layers: a part of the last stage.
struct LossSpec {
  /// Those of which it reads parameters.
  std::vector<const Module*> modules = {};
  /// A scalar, the mean over what it counts: from the last layer's values and the targets of a micro-batch.
  std::function<Variable(const LayerValues& outputs, const std::vector<Tensor>& targets)> run = {};
};

/// A model that trains as a list of layers.
struct LayeredModel {
  std::vector<LayerSpec> layers = {};  ///< from the input on
  LossSpec loss = {};                  ///< of the last one's values
  /// The model's result from the last layer's values, where it is another one (logits); it reads parameters
  /// of the last layer and of `loss.modules` alone.
  std::function<LayerValues(const LayerValues&)> result = {};
};

/// A model that states its layers. Run in order they are its `forward`.
template <class M>
concept ListsLayers = requires(const M& model) {
  { model.to_layers() } -> std::same_as<std::vector<LayerSpec>>;
};

/// A layer that calls a function of one Variable, or of the Tensor in it, and reads the parameters of
/// `modules`. In the list it takes one value; ValueError, naming it, for another number.
template <class Function>
LayerSpec function_layer(std::string name, std::vector<const Module*> modules, Function function) {
  LayerSpec layer{.name = name, .kind = "function", .modules = std::move(modules)};
  layer.run = [name = std::move(name), function = std::move(function)](const LayerValues& inputs) {
    require<ValueError>(inputs.size() == 1, "layer '", name, "': expected 1 value, got ", inputs.size());
    if constexpr (std::is_invocable_r_v<Variable, const Function&, const Variable&>)
      return LayerValues{function(inputs[0])};
    else
      return LayerValues{function(inputs[0].value())};
  };
  return layer;
}

/// The layer that calls a module.
template <class M>
LayerSpec module_layer(M& module) {
  LayerSpec layer = function_layer(
      module.full_name(), {&module}, [&module]<class Input>(const Input& x) requires requires { module(x); } {
        return Variable(module(x));
      });
  layer.kind = module.kind();
  return layer;
}

/// Runs layers one after another.
LayerValues run_layers(std::span<const LayerSpec> layers, LayerValues values);

/// The parameters and buffers that layers read, each once.
ParameterSet variables_of(std::span<const LayerSpec> layers);
/// Those of one layer, or of a loss.
ParameterSet variables_of(std::span<const Module* const> modules);

/// Throws ConfigError, naming the parameter, unless every parameter and buffer of `model` is in one of the
/// layers or the loss, and these have none of another model.
void require_all_layers(const Module& model, const LayeredModel& layered);

}  // namespace tessera::nn
