#pragma once

#include <string>

#include "tensor/tensor.h"

namespace tessera {

/// A tensor under its full name: an entry of a state dict, of an optimizer's state, of a file.
struct NamedTensor {
  std::string name;  ///< its parts with dots between them: "blocks.0.norm.weight"
  Tensor tensor;     ///< the values; of a parameter in mixed precision, those of its f32 master
  /// The rounded parameter that is computed with, where `tensor` is its f32 master: loading into `tensor`
  /// rounds it again.
  Tensor rounded = {};
};

}  // namespace tessera
