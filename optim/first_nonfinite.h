#pragma once  // internal

#include <optional>
#include <string>

#include "autograd/parameter_list.h"

namespace tessera::optim {

/// A gradient that is not finite.
struct NonFiniteGradient {
  std::string parameter;        ///< its name in the list
  std::optional<int> rank;      ///< the rank that found it; nothing without a reducer
  std::optional<int64_t> step;  ///< of the loss scaler, from 0; nothing without one
};

/// "'blocks.0.ln_1.weight' on rank 2 in step 7".
std::string to_string(const NonFiniteGradient& fault);

/// The first one in the order of the list, over all ranks where the list carries a reducer (of the lowest
/// rank that has it; in stages of a pipeline, whose lists differ, the lowest rank's first). `local` is the
/// index of this rank's first one, or -1. The result is the same on every rank.
std::optional<NonFiniteGradient> first_nonfinite_gradient(const ParameterList& parameters, int64_t local);

}  // namespace tessera::optim
