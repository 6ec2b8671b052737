#pragma once

#include "tensor/error.h"

namespace tessera {

/// A matrix for which a decomposition or a solution does not exist: singular, or not positive definite. The
/// message names the matrix of the batch.
struct LinAlgError : ValueError {
  using ValueError::ValueError;
};

}  // namespace tessera
