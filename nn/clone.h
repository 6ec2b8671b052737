#pragma once

#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "nn/module.h"

namespace tessera::nn {

/// A deep copy of a module of any type, a root: every module is made again by its constructor, from its
/// options `o` (a `Layer<Derived, Options>`, or a layer with a member `o`) or without arguments, containers
/// with the modules that were pushed. Then values, dtypes, devices, modes, options and which parameters
/// require a gradient are copied; tied weights stay tied; a module on meta stays on meta, with its
/// initialisers. Gradients, hooks and other members of user-defined types are not copied. Throws ConfigError,
/// naming the module, where a constructor takes other arguments or makes other parameters or children than
/// the original has, for a sharded module and for one in mixed precision.
std::unique_ptr<Module> clone_module(const Module& module);

/// The same as a value: `auto copy = nn::clone(net);`. Throws ConfigError for a reference to a base class.
template <class M>
M clone(const M& module) {
  static_assert(
      std::is_move_constructible_v<M> && !std::is_same_v<M, Module>,
      "this module is not returned by value: call nn::clone_module(module), which returns a pointer");
  require<ConfigError>(typeid(module) == typeid(M), "clone: ", module.kind(), " '", module.full_name(),
                       "' is given as its base class; call nn::clone_module(module)");
  return std::move(static_cast<M&>(*clone_module(module)));
}

}  // namespace tessera::nn
