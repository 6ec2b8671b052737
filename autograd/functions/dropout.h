#pragma once

#include "autograd/variable.h"
#include "tensor/ops/dropout.h"

namespace tessera {

using ops::DropoutMask;

/// x with elements zeroed at `probability`, the others scaled by 1/(1 - probability). The mask is a function
/// of (key, sample, step, index within the sample), the samples and the step being those of the random
/// context; x (B, ...). Nothing is saved: the backward draws the mask again.
Variable dropout(const Variable& x, double probability, uint64_t key);

/// x + dropout(delta) in one pass: the end of a residual branch. Saves nothing; x's gradient is passed on as
/// it is, and so is delta's where nothing is dropped.
Variable add_dropout(const Variable& x, const Variable& delta, const DropoutMask& mask);

}  // namespace tessera
