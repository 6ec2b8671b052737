#pragma once

#include "autograd/variable.h"

namespace tessera {

/// x with elements zeroed at `probability`, the others scaled by 1/(1 - probability). The mask is a function
/// of (key, sample, step, index within the sample), the samples and the step being those of the random
/// context; x (B, ...). Nothing is saved: the backward draws the mask again.
Variable dropout(const Variable& x, double probability, uint64_t key);

}  // namespace tessera
