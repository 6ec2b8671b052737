#include "autograd/functions/losses/distances.h"

#include "autograd/autocast/operands.h"
#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/ternary.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/losses/reduced.h"
#include "autograd/functions/nondifferentiable.h"
#include "autograd/functions/view.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/unary.h"

namespace tessera {
namespace {

/// The losses where the target is 1, and where it is -1; 0 elsewhere.
Variable by_sign(const Variable& target, const Variable& same, const Variable& different) {
  const Tensor is_same = ops::equal(target.value(), Scalar(1.0));
  const Tensor is_different = ops::equal(target.value(), Scalar(-1.0));
  return masked_fill(same, ops::logical_not(is_same), 0.0) +
         masked_fill(different, ops::logical_not(is_different), 0.0);
}

}  // namespace

Variable pairwise_distance(const Variable& a, const Variable& b, double p, double epsilon, bool keepdim) {
  require<ShapeError>(a.ndim() >= 1 && b.ndim() >= 1, "pairwise_distance: expected vectors, got ", a.shape(),
                      " and ", b.shape());
  return norm(a - b + epsilon, p, {-1}, keepdim);
}

Variable cosine_embedding_loss(const Variable& a, const Variable& b, const Variable& target, double margin,
                               LossReduction reduction) {
  if (autocast::widens(a, b, target)) [[unlikely]]
    return cosine_embedding_loss(autocast::wide(a), autocast::wide(b), autocast::wide(target), margin,
                                 reduction);
  const char* where = "cosine_embedding_loss";
  check_option(where, "margin", margin);
  require<ShapeError>(a.ndim() >= 1 && a.ndim() <= 2 && a.shape() == b.shape(), where,
                      ": expected two tensors of one shape, (N, D) or (D), got ", a.shape(), " and ",
                      b.shape());
  Shape expected = a.shape();
  expected.erase(expected.ndim() - 1);
  require<ShapeError>(target.shape() == expected, where, ": expected targets ", expected, ", got ",
                      target.shape());
  // The squared norms have PyTorch's addend, so zero vectors have a cosine of 0.
  constexpr double least = 1e-12;
  const Variable product = sum(a * b, {-1}),
                 norms = (sum(square(a), {-1}) + least) * (sum(square(b), {-1}) + least);
  const Variable cosine = product / sqrt(norms);
  return reduced(where, by_sign(target, 1.0 - cosine, clamp_min(cosine - margin, 0.0)), reduction);
}

Variable margin_ranking_loss(const Variable& a, const Variable& b, const Variable& target, double margin,
                             LossReduction reduction) {
  if (autocast::widens(a, b, target)) [[unlikely]]
    return margin_ranking_loss(autocast::wide(a), autocast::wide(b), autocast::wide(target), margin,
                               reduction);
  check_option("margin_ranking_loss", "margin", margin);
  return reduced("margin_ranking_loss", clamp_min(target * (b - a) + margin, 0.0), reduction);
}

Variable hinge_embedding_loss(const Variable& x, const Variable& target, double margin,
                              LossReduction reduction) {
  if (autocast::widens(x, target)) [[unlikely]]
    return hinge_embedding_loss(autocast::wide(x), autocast::wide(target), margin, reduction);
  check_option("hinge_embedding_loss", "margin", margin);
  require_one_shape("hinge_embedding_loss", x, target);
  // As PyTorch: a target that is neither counts in both ways.
  const Tensor is_same = ops::equal(target.value(), Scalar(1.0));
  const Tensor is_different = ops::equal(target.value(), Scalar(-1.0));
  return reduced("hinge_embedding_loss",
                 masked_fill(clamp_min(margin - x, 0.0), is_same, 0.0) + masked_fill(x, is_different, 0.0),
                 reduction);
}

Variable triplet_margin_loss(const Variable& anchor, const Variable& positive, const Variable& negative,
                             double margin, double p, double epsilon, bool swap, LossReduction reduction) {
  const DistanceFunction distance = [p, epsilon](const Variable& a, const Variable& b) {
    return pairwise_distance(a, b, p, epsilon);
  };
  return triplet_margin_with_distance_loss(anchor, positive, negative, distance, margin, swap, reduction);
}

Variable triplet_margin_with_distance_loss(const Variable& anchor, const Variable& positive,
                                           const Variable& negative, const DistanceFunction& distance,
                                           double margin, bool swap, LossReduction reduction) {
  if (autocast::widens(anchor, positive, negative)) [[unlikely]]
    return triplet_margin_with_distance_loss(autocast::wide(anchor), autocast::wide(positive),
                                             autocast::wide(negative), distance, margin, swap, reduction);
  const char* where = "triplet_margin_loss";
  require<ValueError>(margin > 0, where, ": expected a margin above 0, got ", margin);
  require<ShapeError>(anchor.ndim() == positive.ndim() && anchor.ndim() == negative.ndim(), where,
                      ": expected anchor, positive and negative with as many dimensions, got ",
                      anchor.shape(), ", ", positive.shape(), " and ", negative.shape());
  const auto d = [&](const Variable& a, const Variable& b) {
    return distance ? distance(a, b) : pairwise_distance(a, b);
  };
  const Variable near = d(anchor, positive);
  Variable far = d(anchor, negative);
  if (swap) far = minimum(far, d(positive, negative));
  return reduced(where, clamp_min(near - far + margin, 0.0), reduction);
}

}  // namespace tessera
