#pragma once

#include "dist/comm/call.h"
#include "dist/fsdp/flat_parameter.h"

/// How gradients are divided by the number of ranks. In most dtypes the reduction itself averages. In f16 the
/// sum of many could pass the largest number (65504): they are divided by the power of two nearest above
/// sqrt(ranks) before, and by the rest after.
namespace tessera::dist {

bool needs_predivision(DType reduce);
/// What gradients are reduced with.
Reduction reduction_in(DType reduce);
/// The ranks that a flat parameter's gradients are averaged over.
int ranks_of(const FlatOptions& options);

/// Writes `gradient` into `out`, in its dtype, divided as far as that comes before the reduction (in place,
/// and then rounded: nothing passes the largest number on the way).
void divide_before(const Tensor& gradient, const Tensor& out, int ranks);
/// Divides `reduced` by the rest, in place.
void divide_after(const Tensor& reduced, int ranks);

}  // namespace tessera::dist
