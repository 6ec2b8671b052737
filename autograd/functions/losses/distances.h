#pragma once

#include <functional>

#include "autograd/functions/layers/loss.h"

/// Distances, and losses of pairs and triples of vectors, with PyTorch's names and arguments.
namespace tessera {

/// |a - b + epsilon| in the p-norm along the last dimension; a and b broadcast. With `keepdim` that dimension
/// stays, with extent 1.
Variable pairwise_distance(const Variable& a, const Variable& b, double p = 2, double epsilon = 1e-6,
                           bool keepdim = false);

/// The loss of pairs (N, D) or (D), target (N) or (): 1 - cos(a, b) for a target of 1, max(0, cos(a, b) -
/// margin) for -1. Throws ShapeError; ValueError for a NaN margin.
Variable cosine_embedding_loss(const Variable& a, const Variable& b, const Variable& target,
                               double margin = 0, LossReduction reduction = LossReduction::mean);

/// max(0, -target (a - b) + margin): with a target of 1, a should be larger. Operands broadcast.
Variable margin_ranking_loss(const Variable& a, const Variable& b, const Variable& target, double margin = 0,
                             LossReduction reduction = LossReduction::mean);

/// x for a target of 1, max(0, margin - x) for -1. Throws ShapeError; ValueError for a NaN margin.
Variable hinge_embedding_loss(const Variable& x, const Variable& target, double margin = 1,
                              LossReduction reduction = LossReduction::mean);

/// max(0, d(anchor, positive) - d(anchor, negative) + margin), d being `pairwise_distance`: (N, D), or (D).
/// With `swap` the smaller of d(anchor, negative) and d(positive, negative) counts (Balntas et al. 2016).
/// Throws ShapeError unless all have as many dimensions; ValueError for a margin that is not above 0.
Variable triplet_margin_loss(const Variable& anchor, const Variable& positive, const Variable& negative,
                             double margin = 1, double p = 2, double epsilon = 1e-6, bool swap = false,
                             LossReduction reduction = LossReduction::mean);

/// A distance of two batches of vectors.
using DistanceFunction = std::function<Variable(const Variable& a, const Variable& b)>;
/// The same with a distance of the caller's; an empty one is `pairwise_distance`.
Variable triplet_margin_with_distance_loss(const Variable& anchor, const Variable& positive,
                                           const Variable& negative, const DistanceFunction& distance = {},
                                           double margin = 1, bool swap = false,
                                           LossReduction reduction = LossReduction::mean);

}  // namespace tessera
