#pragma once

#include <string>

#include "tensor/tensor.h"

namespace tessera {

/// A tensor under its full name: an entry of a state dict, of an optimizer's state, of a file.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  /// What is computed with, where `tensor` is an f32 master: what loads into `tensor` rounds it anew.
  Tensor rounded = {};
};

}  // namespace tessera
