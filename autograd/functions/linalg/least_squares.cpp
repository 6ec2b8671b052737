#include "autograd/functions/linalg/least_squares.h"

#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "autograd/record.h"
#include "tensor/ops/linalg/matrices.h"

namespace tessera::linalg {
namespace {

Variable transposed(const Variable& x) {
  return transpose(x, -2, -1);
}

/// The gradient of A from that of its pseudoinverse P:
///     -P^T dP P^T + (I - A P) dP^T P P^T + P^T P dP^T (I - P A),
/// with the products in the order that keeps matrices small.
Variable pinv_gradient(const Variable& a, const Variable& p, const Variable& dp) {
  const Variable pt = transposed(p), dpt = transposed(dp);
  if (a.size(-2) <= a.size(-1)) {
    const Variable k = matmul(dpt, p), kpt = matmul(k, pt);
    return kpt - transposed(matmul(p, k)) - matmul(matmul(a, p), kpt) +
           matmul(matmul(pt, p), dpt - matmul(k, a));
  }
  const Variable k = matmul(p, dpt), ptk = matmul(pt, k);
  return ptk - transposed(matmul(k, p)) + matmul(matmul(dpt - matmul(a, k), p), pt) -
         matmul(matmul(ptk, p), a);
}

}  // namespace

Variable pinv(const Variable& a, const RankTolerance& tolerance, bool hermitian) {
  if (hermitian) {
    require_square("pinv", a.value());
    return pinv(tril(a) + transposed(tril(a, -1)), tolerance, false);
  }
  return record("pinv", pinv(a.value(), tolerance, false), {a}, saved(a, saved_output(0)),
                [](Saved& s, const Incoming& dy, const Wanted&) -> Gradients {
                  return {pinv_gradient(s[0], s[1], dy[0])};
                });
}

LstsqResult<Variable> lstsq(const Variable& a, const Variable& b, std::optional<double> rcond) {
  require_matrices("lstsq", a.value());
  if (b.defined() &&
      (b.ndim() == 1 || (b.ndim() + 1 == a.ndim() && b.shape() == batch_shape(a.shape(), 1)))) {
    LstsqResult<Variable> result = lstsq(a, unsqueeze(b, -1), rcond);
    result.solution = squeeze(result.solution, -1);
    return result;
  }
  const LstsqResult<Tensor> values = lstsq(a.value(), b.value(), rcond);
  const Variable solution =
      record("lstsq", values.solution, {a, b}, saved(a, b),
             [rcond](Saved& s, const Incoming& dy, const Wanted& wanted) -> Gradients {
               const Variable matrix = s[0], right = s[1];
               const Variable inverse = pinv(matrix, {.rtol = rcond}, false);
               Gradients gradients(2);
               if (wanted[0])
                 gradients[0] =
                     sum_to(pinv_gradient(matrix, inverse, matmul(dy[0], transposed(right))), matrix.shape());
               if (wanted[1]) gradients[1] = sum_to(matmul(transposed(inverse), dy[0]), right.shape());
               return gradients;
             });
  return {solution, values.residuals, values.rank, values.singular_values};
}

}  // namespace tessera::linalg
