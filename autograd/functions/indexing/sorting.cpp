#include "autograd/functions/indexing/sorting.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/indexing/indexing.h"
#include "autograd/functions/shaping.h"
#include "autograd/record.h"
#include "tensor/ops/indexing/sorting.h"

namespace tessera {
namespace {

/// The gradient of each value goes to the value's index in x; the other elements get 0.
SortedVariable record_order(const char* name, const Variable& x, int64_t dim, ops::Sorted sorted) {
  Variable values = record(name, std::move(sorted.values), {x}, saved(sorted.indices),
                           [dim, from = x.shape()](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                             const Variable zeros(Tensor::zeros(from, dy[0].dtype(), dy[0].device()));
                             return {from.empty() ? dy[0] : scatter(zeros, dim, s.tensor(0), dy[0])};
                           });
  detail::set_layout_after_reordering(x, values, dim);
  return {std::move(values), std::move(sorted.indices)};
}

}  // namespace

SortedVariable sort(const Variable& x, int64_t dim, bool descending) {
  return record_order("sort", x, dim, ops::sort(x.value(), dim, descending));
}

SortedVariable topk(const Variable& x, int64_t k, int64_t dim, bool largest) {
  return record_order("topk", x, dim, ops::topk(x.value(), k, dim, largest));
}

Variable cumsum(const Variable& x, int64_t dim) {
  if (autocast::widens(x)) [[unlikely]]
    return cumsum(autocast::wide(x), dim);
  return record("cumsum", ops::cumsum(x.value(), dim), {x}, saved(),
                [dim](Saved&, const Incoming& dy, const Wanted&) -> Gradients {
                  if (dy[0].ndim() == 0) return {dy[0]};
                  return {flip(cumsum(flip(dy[0], {dim}), dim), {dim})};
                });
}

}  // namespace tessera
