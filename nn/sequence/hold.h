#pragma once

#include "nn/module.h"

namespace tessera::nn {

/// Leaves all parameters and buffers below `root` that are not in `held` to other ranks, as a stage of a
/// pipeline does with those of other stages: they give up their values, stay on meta, and are in no list,
/// state dict, checkpoint or call of `materialize`. Names and initial values of the others stay those of the
/// whole model. A parameter with several names (tied weights) is held under all of them. Calls of modules
/// that are not held fail, since their parameters have no values. Throws ConfigError for a sharded module,
/// for one in mixed precision, and for a Variable in `held` that is not below `root`.
void hold_only(Module& root, const ParameterSet& held);

/// The parameters and buffers from `module` down.
ParameterSet variables_below(const Module& module);

}  // namespace tessera::nn
