#pragma once  // internal

#include <span>
#include <string>
#include <vector>

#include "dist/fsdp/policy.h"
#include "nn/module.h"

namespace tessera::dist {

/// A parameter of a unit.
struct UnitParameter {
  Variable variable;     ///< shared with the module
  std::string name;      ///< its first full name, relative to the root
  std::string key_name;  ///< the same in the whole model: the key of its initial values
  const init::Initializer* initializer = nullptr;  ///< null: none was declared
};

/// A unit before its parameters are laid out.
struct UnitPlan {
  nn::Module* module = nullptr;           ///< the unit is gathered for calls of this module
  std::string name;                       ///< "blocks.3"; "root"
  std::vector<UnitParameter> parameters;  ///< in module order, each once
};

/// The units of `root`, itself first, the others in order of declaration, with their parameters in module
/// order: those below the unit's module and below no other unit's. A parameter that several units share
/// belongs to their lowest common ancestor. Parameters of modules in `ignored`, and below them, belong to no
/// unit. Throws ValueError for an ignored module that is not below the root.
std::vector<UnitPlan> assign_parameters(nn::Module& root, const UnitPolicy& policy,
                                        std::span<nn::Module* const> ignored = {});

}  // namespace tessera::dist
