#pragma once

#include "autograd/variable.h"

namespace tessera {

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimensions, those of weight's shape
/// (Ba et al. 2016); weight and bias may be undefined, the last dimension alone then counts. Saves x, weight,
/// and per row the mean and the reciprocal deviation.
Variable layer_norm(const Variable& x, const Variable& weight = {}, const Variable& bias = {},
                    double epsilon = 1e-5);

/// x / sqrt(mean(x^2) + epsilon) * weight (Zhang & Sennrich 2019). Saves x, weight, and a number per row.
Variable rms_norm(const Variable& x, const Variable& weight = {}, double epsilon = 1e-6);

}  // namespace tessera
