// Extremes and medians along one dimension, with their indices.

#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/indexing/sorting.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// The gradient of each value goes to the element that it is; the other elements get 0.
ValuesAndIndices<Variable> record_choice(const char* name, const Variable& x, int64_t dim, bool keepdim,
                                         ValuesAndIndices<Tensor> chosen) {
  dim = normalize_dim(dim, x.ndim(), name);
  const auto rule = [dim, keepdim, from = x.shape()](Saved& s, const Incoming& dy,
                                                     const Wanted&) -> Gradients {
    if (from.empty()) return {dy[0]};
    const Variable zeros(Tensor::zeros(from, dy[0].dtype(), dy[0].device()));
    if (keepdim) return {scatter(zeros, dim, s.tensor(0), dy[0])};
    return {scatter(zeros, dim, s.tensor(0).unsqueeze(dim), unsqueeze(dy[0], dim))};
  };
  Variable values = record(name, std::move(chosen.values), {x}, saved(chosen.indices), rule);
  if (x.ndim() > 0) detail::set_layout_after_reduction(x, values, {dim}, keepdim);
  return {std::move(values), std::move(chosen.indices)};
}

}  // namespace

ValuesAndIndices<Variable> max_along(const Variable& x, int64_t dim, bool keepdim) {
  return record_choice("max", x, dim, keepdim, ops::max_along(x.value(), dim, keepdim));
}

ValuesAndIndices<Variable> min_along(const Variable& x, int64_t dim, bool keepdim) {
  return record_choice("min", x, dim, keepdim, ops::min_along(x.value(), dim, keepdim));
}

ValuesAndIndices<Variable> median_along(const Variable& x, int64_t dim, bool keepdim) {
  return record_choice("median", x, dim, keepdim, ops::median_along(x.value(), dim, keepdim));
}

Variable amax(const Variable& x, const Shape& dims, bool keepdim) {
  return max(x, dims, keepdim);
}

Variable amin(const Variable& x, const Shape& dims, bool keepdim) {
  return min(x, dims, keepdim);
}

Variable stddev(const Variable& x, const Shape& dims, bool keepdim, int64_t correction) {
  return std(x, dims, keepdim, correction);
}

}  // namespace tessera
