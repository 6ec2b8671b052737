#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/rotary.h"

namespace tessera {

/// Rotary positions of queries or keys x (B, H, T, D), as `ops::rotary`. Saves nothing: the gradient turns
/// back by the same angles, by this function itself.
Variable rotary(const Variable& x, const RotaryOptions& options = {}, bool inverse = false);

}  // namespace tessera
