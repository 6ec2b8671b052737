#pragma once

#include "autograd/functions/composed.h"
#include "autograd/functions/losses/distances.h"
#include "nn/losses/regression.h"

/// Distances, and losses of pairs and triples, as modules with PyTorch's names: each is the function of the
/// same name (autograd/functions/losses/distances.h), whose arguments are its options.
namespace tessera::nn {

/// Options of PairwiseDistance.
struct PairwiseDistanceOptions {
  double p = 2;          ///< of the norm
  double eps = 1e-6;     ///< added to the difference
  bool keepdim = false;  ///< whether the last dimension stays, with extent 1
};
/// The distance of vectors (..., D).
struct PairwiseDistance : Layer<PairwiseDistance, PairwiseDistanceOptions> {
  /// By default Euclid's.
  explicit PairwiseDistance(Options options = {}) : Layer(options) {}
  /// `pairwise_distance(a, b, o.p, o.eps, o.keepdim)`.
  Variable forward(const Variable& a, const Variable& b) const {
    return pairwise_distance(a, b, o.p, o.eps, o.keepdim);
  }
};

/// Options of CosineSimilarity.
struct CosineSimilarityOptions {
  int64_t dim = 1;    ///< along which the vectors are
  double eps = 1e-8;  ///< the least norm
};
/// The cosine of the angle between vectors.
struct CosineSimilarity : Layer<CosineSimilarity, CosineSimilarityOptions> {
  /// By default along dimension 1.
  explicit CosineSimilarity(Options options = {}) : Layer(options) {}
  /// `cosine_similarity(a, b, o.dim, o.eps)`.
  Variable forward(const Variable& a, const Variable& b) const {
    return cosine_similarity(a, b, o.dim, o.eps);
  }
};

/// Options of the losses with a margin; each has its own default.
struct MarginLossOptions {
  double margin = 0;                              ///< beyond which a pair has no loss
  LossReduction reduction = LossReduction::mean;  ///< of the pairs' losses
};
/// The loss of pairs with targets 1 (alike) and -1, by their cosine.
struct CosineEmbeddingLoss : Layer<CosineEmbeddingLoss, MarginLossOptions> {
  /// By default with margin 0.
  explicit CosineEmbeddingLoss(Options options = {}) : Layer(options) {}
  /// `cosine_embedding_loss(a, b, target, o.margin, o.reduction)`.
  Variable forward(const Variable& a, const Variable& b, const Variable& target) const {
    return cosine_embedding_loss(a, b, target, o.margin, o.reduction);
  }
};
/// The loss of pairs of scores: with a target of 1, a should be larger than b.
struct MarginRankingLoss : Layer<MarginRankingLoss, MarginLossOptions> {
  /// By default with margin 0.
  explicit MarginRankingLoss(Options options = {}) : Layer(options) {}
  /// `margin_ranking_loss(a, b, target, o.margin, o.reduction)`.
  Variable forward(const Variable& a, const Variable& b, const Variable& target) const {
    return margin_ranking_loss(a, b, target, o.margin, o.reduction);
  }
};

/// Options of HingeEmbeddingLoss.
struct HingeEmbeddingLossOptions {
  double margin = 1;                              ///< from which a distance has no loss
  LossReduction reduction = LossReduction::mean;  ///< of the elements' losses
};
/// The loss of distances with targets 1 (alike) and -1.
struct HingeEmbeddingLoss : Layer<HingeEmbeddingLoss, HingeEmbeddingLossOptions> {
  /// By default with margin 1.
  explicit HingeEmbeddingLoss(Options options = {}) : Layer(options) {}
  /// `hinge_embedding_loss(x, target, o.margin, o.reduction)`.
  Variable forward(const Variable& x, const Variable& target) const {
    return hinge_embedding_loss(x, target, o.margin, o.reduction);
  }
};

/// Options of TripletMarginLoss.
struct TripletMarginLossOptions {
  double margin = 1;  ///< by which the negative should be further
  double p = 2;       ///< of the norm
  double eps = 1e-6;  ///< added to differences
  bool swap = false;  ///< whether the positive's distance to the negative counts, too
  LossReduction reduction = LossReduction::mean;  ///< of the triples' losses
};
/// An anchor should be nearer to its positive than to its negative.
struct TripletMarginLoss : Layer<TripletMarginLoss, TripletMarginLossOptions> {
  /// By default with margin 1 and Euclid's distance.
  explicit TripletMarginLoss(Options options = {}) : Layer(options) {}
  /// `triplet_margin_loss(anchor, positive, negative, ...)` with these options.
  Variable forward(const Variable& anchor, const Variable& positive, const Variable& negative) const {
    return triplet_margin_loss(anchor, positive, negative, o.margin, o.p, o.eps, o.swap, o.reduction);
  }
};

/// Options of TripletMarginWithDistanceLoss.
struct TripletMarginWithDistanceLossOptions {
  DistanceFunction distance_function = {};  ///< of two batches of vectors; empty: `pairwise_distance`
  double margin = 1;                        ///< by which the negative should be further
  bool swap = false;                        ///< whether the positive's distance to the negative counts, too
  LossReduction reduction = LossReduction::mean;  ///< of the triples' losses
};
/// The same with a distance of the caller's.
struct TripletMarginWithDistanceLoss
    : Layer<TripletMarginWithDistanceLoss, TripletMarginWithDistanceLossOptions> {
  /// By default with margin 1 and Euclid's distance.
  explicit TripletMarginWithDistanceLoss(Options options = {}) : Layer(std::move(options)) {}
  /// `triplet_margin_with_distance_loss(anchor, positive, negative, ...)` with these options.
  Variable forward(const Variable& anchor, const Variable& positive, const Variable& negative) const {
    return triplet_margin_with_distance_loss(anchor, positive, negative, o.distance_function, o.margin,
                                             o.swap, o.reduction);
  }
};

}  // namespace tessera::nn
