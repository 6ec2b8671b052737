#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace tessera::dist {

/// Chooses the modules below a root that are units: the parameters of one are gathered, freed and reduced
/// together. The root is always a unit; it holds the parameters of no other unit.
///
///     dist::every<models::Block>()                       // by type
///     dist::min_num_params(1'000'000)                    // by size
///     dist::units_where([](const nn::Module& m) { ... }) // by predicate
///     dist::units_named({"blocks.0", "blocks.1"})        // by name
class UnitPolicy {
 public:
  /// The chosen modules below `root`, parents first, in order of declaration; without `root` itself.
  using Choose = std::function<std::vector<nn::Module*>(nn::Module& root)>;

  /// The root alone.
  UnitPolicy() = default;
  /// The root, and the modules that `choose` returns.
  explicit UnitPolicy(Choose choose) : choose_(std::move(choose)) {}

  /// The chosen modules below `root`, as `Choose` orders them.
  std::vector<nn::Module*> choose(nn::Module& root) const {
    return choose_ ? choose_(root) : std::vector<nn::Module*>();
  }

 private:
  Choose choose_;
};

/// Every module for which `predicate` holds.
UnitPolicy units_where(std::function<bool(const nn::Module&)> predicate);
/// Modules at these paths below the root ("blocks.3"). Choosing throws ValueError for an unknown path.
UnitPolicy units_named(std::vector<std::string> paths);
/// The smallest modules of at least `numel` parameters, each counted without the units below it, as PyTorch's
/// size_based_auto_wrap_policy does. Lists of modules and modules without a forward are not chosen: their
/// parameters count for the module above them. Throws ConfigError unless numel is positive.
UnitPolicy min_num_params(int64_t numel);
/// Every module of a type.
template <class M>
UnitPolicy every() {
  return units_where([](const nn::Module& module) { return dynamic_cast<const M*>(&module) != nullptr; });
}
/// Every direct child of a list of layers (ModuleList, Sequential): a model's blocks, of any type.
UnitPolicy every_block();

}  // namespace tessera::dist
