#pragma once

#include "nn/module.h"

namespace tessera::nn {

/// From here on `module` computes in `compute` (bf16 or f16) and is updated in f32 (Micikevicius et al.
/// 2018). The values of every floating parameter become its f32 master, kept in its Entry. The Variable, the
/// same one as before, holds them rounded, and its gradient is accumulated in f32. Optimizers made afterwards
/// change the master and write the rounded values in the same pass; state_dict, and so a checkpoint, holds
/// the masters. Bytes a parameter: 2 rounded, 4 master and 4 gradient. Masters count as optimizer state.
/// Buffers stay as they are, and so does the data: it meets the rounded parameters within an AutocastScope
/// (autograd/autocast/autocast.h), or after a cast. After a write into a master (a loaded checkpoint, weights
/// averaged elsewhere) the next call of `module` rounds it. Works on meta too, for a plan; such a module
/// cannot be materialized afterwards.
///
///     nn::materialize(gpt, cpu(), seed);
///     nn::use_mixed_precision(gpt, bf16);
///     optim::AdamW adam(gpt.parameters());
///
/// Throws DTypeError for another `compute` or for a parameter that is not f32, ConfigError for a sharded
/// module (dist::ShardOptions has its precision). `module.to(f32)` ends it, and with it the use of optimizers
/// made before: they still write rounded values.
void use_mixed_precision(Module& module, DType compute);

/// Rounds every master into its parameter at once: needed where only a submodule is called next, or where the
/// write went through a raw pointer.
void round_masters(Module& module);

/// Sets the master of `variable` in every entry of `module` and its submodules that holds it (tied weights
/// have several); an undefined `master` removes it.
void set_master(Module& module, const Variable& variable, const Tensor& master);

}  // namespace tessera::nn
