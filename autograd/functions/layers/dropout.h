#pragma once

#include "autograd/variable.h"
#include "tensor/ops/layers/dropout.h"

namespace tessera {

using ops::DropoutMask;

/// x with elements zeroed at the mask's probability, the others scaled by 1/(1 - probability). The mask is a
/// function of (key, sample, step, index within the sample), with the samples and the step of the random
/// context. `mask.samples` gives the layout of the samples in x. By default it is the layout set on x
/// (autograd/views/sample_layout.h), with which (B, T, C), its transpose (T, B, C) and its reshape (B T, C)
/// get the same mask, else the first dimension. Nothing is saved: the backward draws the mask again. Throws
/// ValueError, with a correction, where x does not hold the context's samples in that layout.
Variable dropout(const Variable& x, const DropoutMask& mask);
/// The same from probability and key.
Variable dropout(const Variable& x, double probability, uint64_t key, const SampleLayout& samples = {});

/// x + dropout(delta) in one pass: the end of a residual branch. Saves nothing. The gradient of x is that of
/// the result, and so is that of delta where nothing is dropped.
Variable add_dropout(const Variable& x, const Variable& delta, const DropoutMask& mask);

/// `mask` with the layout that it has for x. The backward uses it, since gradients have no layout set.
DropoutMask resolved_mask(const char* where, const DropoutMask& mask, const Variable& x);

}  // namespace tessera
