#pragma once  // not in tessera.h

#include <span>
#include <string_view>

#include "dist/train/config/field.h"

namespace tessera::training {

/// The options that several tables of fields have: those of TrainingConfig, of a program's Trainer
/// (`trainer_fields`) and of gptlite. Name, help, unit, limits and what a resumed run may do stand here once;
/// a table binds those that it honours to its members:
///
///     {shared_option("max_steps"), [](Flags& f) { return &f.trainer.max_steps; }},
///     {shared_option("keep").with_help("newest checkpoints kept, besides the best one"),
///      [](Options& o) { return &o.keep; }},
std::span<const FieldInfo> shared_options();

/// The row of a name. Throws ConfigError, with the nearest name, for one that there is not: when its table is
/// made, which is at the start of a program.
const FieldInfo& shared_option(std::string_view name);

}  // namespace tessera::training
