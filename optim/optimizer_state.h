#pragma once

#include <string>
#include <vector>

#include "tensor/named_tensor.h"

namespace tessera::optim {

/// An option of a group.
struct NamedOption {
  std::string name;  ///< "beta1"
  double value;      ///< flags are 0 or 1
};

/// The state of an optimizer between steps, in a form that any file format can hold.
struct OptimizerState {
  /// "AdamW".
  std::string optimizer;
  /// "exp_avg/blocks.0.ln_1.weight", ...: the parameter's shape and dtype; "step/blocks.0.ln_1.weight": 0-dim
  /// i64.
  std::vector<NamedTensor> tensors;
  /// Each group's options, "lr" first.
  std::vector<std::vector<NamedOption>> groups;
};

/// Throws CheckpointError, naming what is wrong, unless `saved` holds exactly the tensors of `expected`, with
/// the same shapes and dtypes, and as many groups (or none).
void require_fits(const OptimizerState& saved, const OptimizerState& expected);

}  // namespace tessera::optim
