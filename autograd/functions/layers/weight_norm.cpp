#include "autograd/functions/layers/weight_norm.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/recompute/first_run.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"

namespace tessera {
namespace {

/// `target` = x / max(|x|, epsilon).
void store_unit_vector(const Tensor& target, const Tensor& x, double epsilon) {
  target.copy_from(ops::div(x, ops::maximum(ops::norm(x, 2), epsilon)));
}

}  // namespace

Variable weight_norm(const Variable& v, const Variable& g, std::optional<int64_t> dim) {
  Shape expected = Shape::filled(v.ndim(), 1), over;
  const int64_t kept = dim ? normalize_dim(*dim, v.ndim(), "weight_norm") : -1;
  for (int64_t i = 0; i < v.ndim(); ++i) {
    if (i == kept) expected[i] = v.size(i);
    if (i != kept) over.push_back(i);
  }
  require<ShapeError>(g.shape() == expected || (!dim && g.ndim() == 0), "weight_norm: expected g of shape ",
                      expected, " for v ", v, ", got ", g);
  if (over.empty()) return g * v / abs(v);
  return v * (g / sqrt(sum(square(v), over, true)));
}

Variable spectral_norm(const Variable& weight, const Tensor& u, const Tensor& v, int64_t power_iterations,
                       double epsilon, int64_t dim) {
  require<ShapeError>(weight.ndim() >= 2, "spectral_norm: expected a weight of 2 dimensions or more, got ",
                      weight);
  const int64_t first = normalize_dim(dim, weight.ndim(), "spectral_norm");
  Shape order = Shape{first};
  for (int64_t i = 0; i < weight.ndim(); ++i)
    if (i != first) order.push_back(i);
  const Variable front = first == 0 ? weight : permute(weight, order);
  const Variable matrix = cast(reshape(front, {weight.size(first), -1}), u.dtype());
  require<ShapeError>(u.shape() == Shape{matrix.size(0)} && v.shape() == Shape{matrix.size(1)},
                      "spectral_norm: expected u (", matrix.size(0), ",) and v (", matrix.size(1), ",), got ",
                      u.shape(), " and ", v.shape());
  if (!weight.device().is_meta() && !is_recomputing()) {
    const Tensor w = matrix.value();
    for (int64_t i = 0; i < power_iterations; ++i) {
      store_unit_vector(u, ops::mv(w, v), epsilon);
      store_unit_vector(v, ops::mv(w.transpose(0, 1), u), epsilon);
    }
  }
  // Copies: a later call changes the buffers before this one's backward.
  const Variable left(u.clone()), right(v.clone());
  return weight / cast(sum(left * mv(matrix, right)), weight.dtype());
}

}  // namespace tessera
