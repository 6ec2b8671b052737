#pragma once

#include <string>
#include <vector>

#include "tensor/named_tensor.h"

namespace tessera::nn {

/// Parameters and buffers by their full names.
using StateDict = std::vector<NamedTensor>;

/// The names that a load with `strict = false` did not use, as PyTorch returns them.
struct LoadResult {
  std::vector<std::string> missing_keys;     ///< that the module has and the state dict has not
  std::vector<std::string> unexpected_keys;  ///< that the state dict has and the module has not
};

/// Copies the values of `given` into the tensors of `own` with the same names, converted to their dtypes,
/// after all entries were checked. `subject` begins a message. Throws as `Module::load_state_dict`.
LoadResult load_into(const StateDict& own, const StateDict& given, bool strict, const std::string& subject);

}  // namespace tessera::nn
