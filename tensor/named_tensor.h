#pragma once

#include <string>

#include "tensor/tensor.h"

namespace tessera {

/// A tensor under its full name: an entry of a state dict, of an optimizer's state, of a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace tessera
