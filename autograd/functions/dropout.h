#pragma once

#include "autograd/variable.h"
#include "tensor/ops/dropout.h"

namespace tessera {

using ops::DropoutMask;

/// x with elements zeroed at the mask's probability, the others scaled by 1/(1 - probability). The mask is a
/// function of (key, sample, step, index within the sample), the samples and the step being those of the
/// random context. Where x holds the samples is what `mask.samples` says; where that says nothing, what is
/// noted on x (autograd/sample_layout.h), by which (B, T, C), its transpose (T, B, C) and its reshape (B T,
/// C) get the same mask; without a note, the first dimension. Nothing is saved: the backward draws the mask
/// again. Throws ValueError, saying what to write, where x does not hold the context's samples that way.
Variable dropout(const Variable& x, const DropoutMask& mask);
/// The same by probability and key.
Variable dropout(const Variable& x, double probability, uint64_t key, const SampleLayout& samples = {});

/// x + dropout(delta) in one pass: the end of a residual branch. Saves nothing; x's gradient is passed on as
/// it is, and so is delta's where nothing is dropped.
Variable add_dropout(const Variable& x, const Variable& delta, const DropoutMask& mask);

/// `mask` with the layout said that it has for x: what its backward, in which gradients carry no such note,
/// has to use.
DropoutMask resolved_mask(const char* where, const DropoutMask& mask, const Variable& x);

}  // namespace tessera
