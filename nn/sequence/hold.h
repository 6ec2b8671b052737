#pragma once

#include <set>
#include <string>

#include "nn/module.h"

namespace tessera::nn {

/// Leaves all parameters and buffers below `root` that are not in `held` to other ranks, as a stage of a
/// pipeline does with those of other stages: they give up their values, stay on meta, and are in no list,
/// state dict, checkpoint or call of `materialize`. Names and initial values of the others stay those of the
/// whole model, and `load_state_dict` skips what other ranks hold. A parameter with several names (tied
/// weights) is held under all of them. Calls of modules that are not held fail, since their parameters have
/// no values. Throws ConfigError, and changes nothing, for a sharded module, for one in mixed precision, and
/// for a Variable in `held` that is not below `root`.
void hold_only(Module& root, const ParameterSet& held);

/// Throws ConfigError unless all parameters and buffers below `root` are here, and neither sharded nor in
/// mixed precision, as before a cut.
void require_whole(const Module& root);

/// The names, relative to `module`, of the parameters and buffers that `hold_only` left to other ranks.
std::set<std::string> names_held_elsewhere(const Module& module);

/// The parameters and buffers from `module` down.
ParameterSet variables_below(const Module& module);

}  // namespace tessera::nn
