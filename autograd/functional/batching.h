#pragma once  // internal

#include <span>

#include "autograd/variable.h"

/// Where the samples of a vmap enter the graph, and leave it. Between, Variables have the shape of one sample
/// and the values of all (tensor/batched/README.md).
namespace tessera::detail {

/// The samples along dimension `dim` of `x`.
Variable to_samples(const Variable& x, int64_t dim);
/// All samples of `x` as dimension `dim`; those of an x that is not batched are the same.
Variable from_samples(const Variable& x, int64_t dim, int32_t samples);
/// `x`, which is not batched, in every sample. Its gradient is the sum over the samples.
Variable share_with_samples(const Variable& x, int32_t samples);
/// The sum over the samples of `x`; of an x that is not batched that of `samples` equal ones.
Variable sum_of_samples(const Variable& x, int32_t samples);

/// Replaces the edges of `node`, whose outputs are batched, that lead to inputs that are not: the gradients
/// of these are summed over the samples on the way. A backward inside the vmap would need them apart: it
/// throws NoBatchingRule.
void link_shared_inputs(Node& node, std::span<const Variable> inputs, int32_t samples);

}  // namespace tessera::detail
