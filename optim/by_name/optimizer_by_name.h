#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "optim/by_name/option_value.h"
#include "optim/optimizer.h"

namespace tessera::optim {

/// Parameters with options of their own, in an optimizer made by its name.
struct NamedOptionsGroup {
  ParameterList parameters;         ///< each in one group only
  std::vector<NamedValue> options;  ///< in place of those of all groups
};

/// An optimizer by the name and the options of DeepSpeed's configuration, with DeepSpeed's defaults:
///
///     auto adam = optim::make_optimizer("AdamW", parameters, {{"lr", 1e-3}, {"betas", std::vector{0.9,
///     0.95}}});
///
/// Adam, AdamW, SGD, Adagrad, RMSprop, Lamb, Lion and Muon, in upper or lower case; `optimizer_options` lists
/// their options. Throws NotBuiltError for DeepSpeed's other optimizers, ConfigError for an unknown name
/// (with the nearest one) and as `OptimizerValues`, and as the constructor of the optimizer.
/// @{
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterList& parameters,
                                          const std::vector<NamedValue>& options = {});
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const std::vector<NamedOptionsGroup>& groups,
                                          const std::vector<NamedValue>& options = {});
/// @}

}  // namespace tessera::optim
