#pragma once

#include <memory>

#include "autograd/functions/images/rank_statistics.h"
#include "autograd/variable.h"

namespace tessera {

/// Normalizes each channel of x (N, C, ...) by its mean and variance over all other dimensions, (x - mean) /
/// sqrt(variance + epsilon) * weight + bias (Ioffe and Szegedy 2015). weight and bias are (C), in x's dtype
/// or, beside half types, f32; they may be undefined.
///
/// In training the statistics are those of x, and running_mean and running_var (C), unless undefined, become
/// (1 - momentum) running + momentum of x, the variance being that over n - 1 values. In evaluation they are
/// read; where they are undefined the statistics are those of x. A rerun of a checkpointed segment does not
/// change them again.
///
/// Saves x, weight, and two values per channel. Throws ShapeError, DTypeError; ValueError in training for a
/// channel of one value.
Variable batch_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                    const Variable& weight = {}, const Variable& bias = {}, bool training = false,
                    double momentum = 0.1, double epsilon = 1e-5);
/// max(batch_norm(...), 0) in the same pass, forward and backward. What relu would save is not saved:
/// backward computes the sign again.
Variable batch_norm_relu(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                         const Variable& weight = {}, const Variable& bias = {}, bool training = false,
                         double momentum = 0.1, double epsilon = 1e-5);
/// max(batch_norm(...) + added, 0): the end of a residual block, `added` being of x's shape and dtype. Saves
/// x, the result and two values per channel. Where x and `added` are in channels-last layout it is one pass.
Variable batch_norm_add_relu(const Variable& x, const Variable& added, const Tensor& running_mean,
                             const Tensor& running_var, const Variable& weight = {},
                             const Variable& bias = {}, bool training = false, double momentum = 0.1,
                             double epsilon = 1e-5);
/// `batch_norm` in training with the statistics of the x of all ranks, which may have different N: as one
/// process on the whole batch. Forward and backward each gather 2 C values from every rank. Gradients of
/// weight and bias are those of this rank's x. Differentiable to any order: a backward with create_graph
/// gathers four vectors, and all ranks run it together, as every backward.
Variable sync_batch_norm(const Variable& x, const Tensor& running_mean, const Tensor& running_var,
                         const Variable& weight, const Variable& bias,
                         const std::shared_ptr<RankStatistics>& ranks, double momentum = 0.1,
                         double epsilon = 1e-5);

}  // namespace tessera
