#pragma once

#include <string>

#include "tensor/tensor.h"

namespace tessera::dist {

/// A parameter, buffer or optimizer state under its full name.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace tessera::dist
