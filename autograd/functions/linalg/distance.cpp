#include "autograd/functions/linalg/distance.h"

#include <cmath>

#include "autograd/autocast/operands.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/indexing/advanced_indexing.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/arguments/distance.h"
#include "tensor/composed/shaping/arrangements.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/linalg/distance.h"

namespace tessera {
namespace {

/// The derivatives of the distances y by the coordinates of a (..., n, m, d), as differentiable functions.
Variable slopes(const Variable& a, const Variable& b, double p, const Variable& y) {
  const Variable gap = unsqueeze(a, -2) - unsqueeze(b, -3), each = unsqueeze(y, -1);
  const Tensor none = ops::equal(gap.value(), Scalar(0));
  switch (distance_norm(p)) {
    case DistanceNorm::count:
      return gap * 0.0;
    case DistanceNorm::sum:
      return sign(gap);
    case DistanceNorm::largest:
      return where(ops::equal(ops::abs(gap.value()), each.value()), sign(gap), Scalar(0.0));
    default: {
      // Powers of numbers above 0 alone, so that no derivative is infinite.
      const Variable size = abs(masked_fill(gap, none, 1.0));
      const Variable distance = masked_fill(each, ops::equal(each.value(), Scalar(0)), 1.0);
      return masked_fill(sign(gap) * pow(size / distance, p - 1), none, 0.0);
    }
  }
}

/// Both gradients of the Euclidean distances by products: with w = dy / y, a_i sum_j w_ij - sum_j w_ij b_j.
Gradients by_products(const Variable& a, const Variable& b, const Variable& y, const Variable& dy,
                      const Wanted& wanted) {
  const Tensor zero = ops::equal(y.value(), Scalar(0));
  const Variable w = masked_fill(dy / masked_fill(y, zero, 1.0), zero, 0.0);
  Gradients gradients(2);
  if (wanted[0]) gradients[0] = a * sum(w, {-1}, true) - matmul(w, b);
  if (wanted[1]) gradients[1] = b * unsqueeze(sum(w, {-2}), -1) - matmul(transpose(w, -2, -1), a);
  return gradients;
}

/// Of operands in f32 or f64 with equal leading dimensions.
Variable distances(const Variable& a, const Variable& b, double p) {
  return record("cdist", ops::cdist(a.value(), b.value(), p), {a, b}, saved(a, b, saved_output(0)),
                [p](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
                  const Variable x = s[0], z = s[1], y = s[2];
                  if (grad_mode() && p == 2) return by_products(x, z, y, dy[0], wanted);
                  Gradients gradients(2);
                  if (grad_mode()) {
                    const Variable each = unsqueeze(dy[0], -1) * slopes(x, z, p, y);
                    if (wanted[0]) gradients[0] = sum(each, {-2});
                    if (wanted[1]) gradients[1] = neg(sum(each, {-3}));
                    return gradients;
                  }
                  const Tensor value = y.value(), gradient = dy[0].value();
                  if (wanted[0]) gradients[0] = ops::cdist_backward(x.value(), z.value(), p, value, gradient);
                  if (wanted[1])
                    gradients[1] = ops::cdist_backward(z.value(), x.value(), p, value.transpose(-2, -1),
                                                       gradient.transpose(-2, -1));
                  return gradients;
                });
}

}  // namespace

Variable cdist(const Variable& a, const Variable& b, double p) {
  if (autocast::widens(a, b)) [[unlikely]]
    return cdist(autocast::wide(a), autocast::wide(b), p);
  // Throws for operands that do not fit.
  const bool checked = a.defined() && b.defined() && a.ndim() >= 2 && b.ndim() >= 2 &&
                       a.dtype() == b.dtype() && is_floating(a.dtype()) &&
                       a.shape().back() == b.shape().back() && p >= 0;
  if (!checked) return Variable(ops::cdist(a.value(), b.value(), p));
  if (a.dtype() == bf16 || a.dtype() == f16) return cast(cdist(cast(a, f32), cast(b, f32), p), a.dtype());
  Shape left = a.shape(), right = b.shape();
  left[a.ndim() - 2] = right[b.ndim() - 2] = 1;
  left = right = broadcast_shapes(left, right, "cdist");
  left[left.ndim() - 2] = a.size(-2);
  right[right.ndim() - 2] = b.size(-2);
  return distances(broadcast_to(a, left), broadcast_to(b, right), p);
}

Variable pdist(const Variable& x, double p) {
  require<ShapeError>(x.ndim() == 2, "pdist: expected rows (n, d), got ", x);
  const int64_t n = x.size(0);
  const Tensor pairs = triu_indices(n, n, 1).to(x.device());
  return take(cdist(x, x, p), ops::add(ops::mul(pairs[0], Scalar(n)), pairs[1]));
}

}  // namespace tessera
