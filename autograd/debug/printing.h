#pragma once

#include <iosfwd>

#include "autograd/variable.h"

namespace tessera {

/// Writes the value as a Tensor (tensor/printing/format.h), then what PyTorch adds: ", requires_grad" for a
/// leaf that requires a gradient, ", grad_fn=<mul>" with the name of the operation for a computed Variable.
/// An undefined one is "an undefined Variable".
std::ostream& operator<<(std::ostream& stream, const Variable& x);

}  // namespace tessera
