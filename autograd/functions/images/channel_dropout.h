#pragma once

#include "autograd/functions/layers/dropout.h"

/// Dropout of whole channels, and the dropout that keeps mean and variance. Masks are drawn as those of
/// `dropout`, by (key, sample, step, index); the first dimension counts the samples unless `mask.samples`
/// says otherwise. Nothing but the mask's small tensor is saved, or nothing.
namespace tessera {

/// x (N, C, ...) with whole channels zeroed at the mask's probability, the others scaled by 1/(1 -
/// probability) (Tompson et al. 2015): PyTorch's dropout1d, dropout2d and dropout3d, of 3, 4 and 5
/// dimensions. Throws ShapeError for another rank.
/// @{
Variable dropout1d(const Variable& x, const DropoutMask& mask);
Variable dropout2d(const Variable& x, const DropoutMask& mask);
Variable dropout3d(const Variable& x, const DropoutMask& mask);
/// @}

/// x with dropped elements at SELU's negative limit, -1.7580993..., then scaled and shifted so that an input
/// of mean 0 and variance 1 keeps both (Klambauer et al. 2017); of whole channels for
/// `feature_alpha_dropout`, x (N, C, ...).
/// @{
Variable alpha_dropout(const Variable& x, const DropoutMask& mask);
Variable feature_alpha_dropout(const Variable& x, const DropoutMask& mask);
/// @}

}  // namespace tessera
