#pragma once

#include "autograd/variable.h"

/// Norms of images besides batch norm. weight and bias are (C) and may be undefined.
namespace tessera {

/// x (N, C, ...) normalized over each group of C / num_groups channels and all further dimensions, then times
/// weight plus bias of each channel (Wu and He 2018), in one pass over memory. Saves x. Throws ShapeError for
/// groups that do not divide C.
Variable group_norm(const Variable& x, int64_t num_groups, const Variable& weight = {},
                    const Variable& bias = {}, double epsilon = 1e-5);

/// x (N, C, ...) normalized over all further dimensions of each sample and channel, then times weight plus
/// bias (Ulyanov et al. 2016). With `use_input_stats` the statistics are those of x, and running ones (C),
/// where they are defined, take a share `momentum` of their averages over the samples; without, the running
/// ones are read. Throws ShapeError, ValueError for planes of one element.
Variable instance_norm(const Variable& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                       const Variable& weight = {}, const Variable& bias = {}, bool use_input_stats = true,
                       double momentum = 0.1, double epsilon = 1e-5);

/// x (N, C, ...) divided by (k + alpha s)^beta, where s is the sum over `size` neighbouring channels of x^2,
/// divided by `size` (Krizhevsky et al. 2012). Throws ShapeError, ValueError for a size below 1.
Variable local_response_norm(const Variable& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                             double k = 1);

}  // namespace tessera
