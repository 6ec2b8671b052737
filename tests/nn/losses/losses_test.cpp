// Losses as modules: each is its function with its options; the forms of a sequence's cross entropy.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/reduction.h"
#include "autograd/functions/view.h"
#include "nn/losses/classification.h"
#include "nn/losses/ctc_loss.h"
#include "nn/losses/distances.h"
#include "nn/losses/regression.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/literal.h"

using namespace tessera;

namespace {

Tensor values(const Shape& shape, double phase = 0) {
  const Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = std::sin(2.3 * double(i + 1) + phase);
  return x;
}
bool same(const Variable& a, const Variable& b) {
  return array_equal(a.value(), b.value());
}

}  // namespace

TEST_CASE("loss modules: of real values, the functions with their options") {
  const Variable x = values({4, 3}), t = values({4, 3}, 1), w = exp(Variable(values({4, 3}, 2)));
  CHECK(same(nn::L1Loss()(x, t), l1_loss(x, t)));
  CHECK(same(nn::L1Loss()(x, t, w), l1_loss(x, t, LossReduction::mean, w)));
  CHECK(same(nn::MSELoss({.reduction = LossReduction::sum})(x, t), mse_loss(x, t, LossReduction::sum)));
  CHECK(same(nn::MSELoss({.reduction = loss_reduction("none")})(x, t), mse_loss(x, t, LossReduction::none)));
  CHECK(same(nn::MSELoss()(x, t, w), mse_loss(x, t, LossReduction::mean, w)));
  CHECK(same(nn::HuberLoss({.delta = 0.2})(x, t), huber_loss(x, t, LossReduction::mean, 0.2)));
  CHECK(same(nn::SmoothL1Loss({.beta = 0.2})(x, t), smooth_l1_loss(x, t, LossReduction::mean, 0.2)));
  CHECK(same(nn::PoissonNLLLoss({.full = true})(x, w), poisson_nll_loss(x, w, true, true)));
  CHECK(same(nn::GaussianNLLLoss({.full = true})(x, t, w), gaussian_nll_loss(x, t, w, true)));
}

TEST_CASE("loss modules: of classes and labels, the functions with their options") {
  const Variable x = values({4, 3}), t = softmax(Variable(values({4, 3}, 1)));
  const Tensor ids = tensor({2, 0, 1, 2}), weight = tensor({0.5, 1.0, 2.0}, f64);
  const Variable w(weight), p = softmax(x);
  CHECK(same(nn::CrossEntropyLoss()(x, ids), cross_entropy(x, ids)));
  CHECK(same(nn::CrossEntropyLoss({.weight = weight, .ignore_index = 2, .label_smoothing = 0.1})(x, ids),
             cross_entropy(x, ids, {.ignore_index = 2, .label_smoothing = 0.1}, weight)));
  CHECK(same(nn::CrossEntropyLoss({.weight = weight})(x, t), cross_entropy(x, t, {}, weight)));
  CHECK(same(nn::CrossEntropyLoss()(x, t.value()), cross_entropy(x, t)));
  CHECK(same(nn::CrossEntropyLoss()(x, Variable(ids)), cross_entropy(x, ids)));
  CHECK(same(nn::NLLLoss({.weight = weight})(log_softmax(x), ids), nll_loss(log_softmax(x), ids, weight)));
  CHECK(same(nn::BCELoss({.weight = weight})(p, t), binary_cross_entropy(p, t, w)));
  CHECK(same(nn::BCELoss()(p, t), binary_cross_entropy(p, t)));
  CHECK(same(nn::BCEWithLogitsLoss({.pos_weight = weight})(x, t),
             bce_with_logits(x, t, LossReduction::mean, w)));
  CHECK(same(nn::KLDivLoss({.reduction = KlReduction::batchmean})(log_softmax(x), t),
             kl_div(log_softmax(x), t, LossReduction::sum) / 4.0));
  CHECK(same(nn::SoftMarginLoss()(x, t), soft_margin_loss(x, t)));
  CHECK(same(nn::MultiMarginLoss({.p = 2, .margin = 0.5, .weight = weight})(x, ids),
             multi_margin_loss(x, ids, 2, 0.5, weight)));
  const Tensor labels = tensor({{1, 0, -1}, {2, -1, 0}, {-1, 0, 0}, {0, 1, 2}});
  CHECK(same(nn::MultiLabelMarginLoss()(x, labels), multilabel_margin_loss(x, labels)));
  CHECK(same(nn::MultiLabelSoftMarginLoss({.weight = weight})(x, t), multilabel_soft_margin_loss(x, t, w)));
}

TEST_CASE("loss modules: of pairs, triples and sequences, the functions with their options") {
  const Variable a = values({4, 3}), b = values({4, 3}, 1), c = values({4, 3}, 2);
  const Variable signs = tensor({1.0, -1.0, 1.0, -1.0}, f64);
  CHECK(same(nn::PairwiseDistance({.p = 1, .keepdim = true})(a, b), pairwise_distance(a, b, 1, 1e-6, true)));
  CHECK(same(nn::CosineSimilarity()(a, b), cosine_similarity(a, b)));
  CHECK(same(nn::CosineEmbeddingLoss({.margin = 0.3})(a, b, signs), cosine_embedding_loss(a, b, signs, 0.3)));
  const Variable scores = a.select(1, 0), others = b.select(1, 0);
  CHECK(same(nn::MarginRankingLoss({.margin = 0.3})(scores, others, signs),
             margin_ranking_loss(scores, others, signs, 0.3)));
  CHECK(same(nn::HingeEmbeddingLoss()(scores, signs), hinge_embedding_loss(scores, signs)));
  CHECK(same(nn::TripletMarginLoss({.margin = 0.5, .swap = true})(a, b, c),
             triplet_margin_loss(a, b, c, 0.5, 2, 1e-6, true)));
  const DistanceFunction city = [](const Variable& x, const Variable& y) { return sum(abs(x - y), {-1}); };
  CHECK(same(nn::TripletMarginWithDistanceLoss({.distance_function = city})(a, b, c),
             triplet_margin_with_distance_loss(a, b, c, city)));
  const Variable log_probs = log_softmax(Variable(values({5, 2, 4})));
  const Tensor targets = tensor({{1, 2}, {3, 0}}), frames = tensor({5, 4}), lengths = tensor({2, 1});
  CHECK(same(nn::CTCLoss({.reduction = LossReduction::sum})(log_probs, targets, frames, lengths),
             ctc_loss(log_probs, targets, frames, lengths, 0, LossReduction::sum)));
}

TEST_CASE("loss modules: a sequence's cross entropy flattened, as it is, and with swapped axes") {
  const Tensor labels = tensor({{0, 4, 2}, {1, 3, 3}});
  const Variable plain = Variable::leaf(values({2, 3, 5})), flat = Variable::leaf(values({2, 3, 5})),
                 swapped = Variable::leaf(values({2, 3, 5}));
  const Variable losses[] = {nn::CrossEntropyLoss()(plain, labels),
                             nn::CrossEntropyLoss_FlatView()(flat, labels),
                             nn::CrossEntropyLoss({.class_dim = 1})(nn::SwapAxes()(swapped), labels)};
  for (const Variable& loss : losses) {
    CHECK(loss.item() == doctest::Approx(losses[0].item()).epsilon(1e-12));
    loss.backward();
  }
  CHECK(flat.grad().value().allclose(plain.grad().value()));
  CHECK(swapped.grad().value().allclose(plain.grad().value()));
  CHECK(plain.grad().value().abs().max().item() > 0.05);
  // Images (N, C, H, W), and probabilities along the same dimension.
  const Variable images = values({2, 3, 2, 2}), chances = softmax(Variable(values({2, 3, 2, 2}, 1)), 1);
  const Tensor ids = tensor({{{0, 1}, {2, 0}}, {{1, 1}, {2, 2}}});
  const nn::CrossEntropyLoss pixels({.class_dim = 1});
  CHECK(pixels(images, ids).item() ==
        doctest::Approx(nll_loss(log_softmax(images, 1), ids, {}, -100, LossReduction::mean, 1).item()));
  CHECK(pixels(images, chances).item() == doctest::Approx(-sum(chances * log_softmax(images, 1)).item() / 8));
  CHECK_THROWS_AS(nn::CrossEntropyLoss()(images, ids), ShapeError);
  CHECK_THROWS_AS(nn::CrossEntropyLossFlatView()(plain, tensor({1, 2})), ShapeError);
}
