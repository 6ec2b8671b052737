// Losses: what no golden of tests/ops has. Sums over many elements, targets of other dtypes, CTC against an
// enumeration of all alignments, refusals.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/autocast/autocast.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/losses/ctc_loss.h"
#include "autograd/functions/losses/distances.h"
#include "autograd/functions/losses/regression.h"
#include "autograd/functions/reduction.h"
#include "tensor/functions.h"
#include "tensor/ops/creation/generator.h"
#include "tensor/ops/creation/literal.h"
#include "tensor/ops/losses/elementwise_loss.h"
#include "tensor/threads/parallel.h"

using namespace tessera;

namespace {

const double infinity = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

Tensor values(const Shape& shape, double phase = 0) {
  const Tensor x = Tensor::empty(shape, f64);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<double>()[i] = 2 * std::sin(2.3 * double(i + 1) + phase);
  return x;
}

/// The labels of a path: repeated ones merged, then blanks removed.
std::vector<int64_t> collapsed(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> labels;
  for (size_t i = 0; i < path.size(); ++i)
    if (path[i] != blank && (i == 0 || path[i] != path[i - 1])) labels.push_back(path[i]);
  return labels;
}

/// The CTC loss by its definition: over all classes^frames paths. `log_probs` (frames, classes).
double enumerated_ctc(const Tensor& log_probs, const std::vector<int64_t>& labels, int64_t blank) {
  const int64_t frames = log_probs.size(0), classes = log_probs.size(1);
  std::vector<int64_t> path(static_cast<size_t>(frames), 0);
  double probability = 0;
  for (;;) {
    if (collapsed(path, blank) == labels) {
      double score = 0;
      for (int64_t t = 0; t < frames; ++t)
        score += log_probs.data<double>()[t * classes + path[static_cast<size_t>(t)]];
      probability += std::exp(score);
    }
    size_t t = 0;
    while (t < path.size() && ++path[t] == classes) path[t++] = 0;
    if (t == path.size()) return -std::log(probability);
  }
}

}  // namespace

TEST_CASE("losses: sums over many elements, in every dtype and for any number of threads") {
  const Tensor x = values({3, 70001}), t = values({3, 70001}, 1.0);
  const double exact = (x - t).abs().sum().item();
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor a = x.to(dtype), b = t.to(dtype);
    const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-6 : 1e-2;
    CHECK(l1_loss(Variable(a), Variable(b)).value().to(f64).item() ==
          doctest::Approx(exact / 210003).epsilon(tolerance));
  }
  const Tensor a = x.to(f32), b = t.to(f32);
  const int before = num_threads();
  std::vector<double> sums;
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    sums.push_back(huber_loss(Variable(a), Variable(b), LossReduction::sum, 0.5).value().item());
  }
  set_num_threads(before);
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == sums[2]);
}

TEST_CASE("losses: operands promote, halves are widened under autocast, strided gradients are right") {
  const Variable x = Variable::leaf(values({4, 6}).to(bf16)), t = values({4, 6}, 1.0).to(f32);
  const Variable loss = mse_loss(x, t);
  CHECK(loss.dtype() == f32);
  loss.backward();
  CHECK(x.grad().dtype() == bf16);
  {
    const AutocastScope autocast(bf16);
    for (const Variable& result : {huber_loss(x, x), smooth_l1_loss(x, x), bce_with_logits(x, x),
                                   soft_margin_loss(x, x), poisson_nll_loss(x, x), hinge_embedding_loss(x, x),
                                   margin_ranking_loss(x, x, x), cross_entropy(x, Variable(x.value()))})
      CHECK(result.dtype() == f32);
  }
  const Variable strided = Variable::leaf(values({6, 4}));
  sum(l1_loss(strided.transpose(0, 1), Variable(values({4, 6}, 1.0)), LossReduction::none) *
      Variable(values({6, 4}).transpose(0, 1)))
      .backward();
  const Tensor expected = values({6, 4}) * (values({6, 4}) - values({4, 6}, 1.0).transpose(0, 1)).sign();
  CHECK(strided.grad().value().allclose(expected));
}

TEST_CASE("cross entropy: one-hot probabilities are class ids, with smoothing and in half types") {
  const Tensor ids = tensor({2, 0, 4, 1});
  for (const DType dtype : {f64, f32, bf16}) {
    const Variable a = Variable::leaf(values({4, 5}).to(dtype)), b = Variable::leaf(a.value().clone());
    const CrossEntropyOptions options{.label_smoothing = 0.25};
    const Variable hard = cross_entropy(a, ids, options);
    const Variable soft = cross_entropy(b, one_hot(ids, 5, dtype), options);
    CHECK(soft.dtype() == hard.dtype());
    CHECK(soft.value().to(f64).item() == doctest::Approx(hard.value().to(f64).item()).epsilon(1e-6));
    hard.backward();
    soft.backward();
    CHECK(allclose(a.grad().value().to(f64), b.grad().value().to(f64), 1e-2, dtype == bf16 ? 1e-2 : 1e-6));
  }
  CHECK(cross_entropy(Variable(values({4, 5})), Variable(ids)).item() ==
        cross_entropy(Variable(values({4, 5})), ids).item());
}

TEST_CASE(
    "cross entropy: rows that do not count have a gradient of 0, also one that is differentiated again") {
  const Variable logits = Variable::leaf(tensor({{1.0, 2.0, 4.0}, {0.0, 1.0, -1.0}}));
  const Variable weight = Variable::leaf(tensor({{1.0}, {2.0}, {-1.0}})), x = tensor({{1.0}, {3.0}});
  for (const double smoothing : {0.0, 0.25})
    for (const bool again : {false, true}) {
      const CrossEntropyOptions options{.ignore_index = 2, .label_smoothing = smoothing};
      const Variable loss = cross_entropy(logits, tensor({2, 2}), options);
      CHECK(std::isnan(loss.item()));
      const Variable gradient = grad(loss, {logits}, {.create_graph = again})[0];
      CHECK(array_equal(gradient.value(), zeros({2, 3}, f64)));
      if (again) CHECK(array_equal(grad(sum(gradient), {logits})[0].value(), zeros({2, 3}, f64)));
      const Variable fused = linear_cross_entropy(x, weight, tensor({2, 2}), options);
      CHECK(array_equal(grad(fused, {weight}, {.create_graph = again})[0].value(), zeros({3, 1}, f64)));
    }
}

TEST_CASE("ctc: the sum over all alignments, with repeated labels and without labels") {
  const std::vector<std::vector<int64_t>> targets = {{1, 2}, {1, 1}, {2}, {}, {2, 2, 1}, {1, 1, 1}};
  for (const int64_t frames : {1, 2, 4, 5})
    for (const std::vector<int64_t>& labels : targets) {
      const Tensor log_probs = log_softmax(values({frames, 3}, double(frames)), -1);
      const int64_t length = static_cast<int64_t>(labels.size());
      const Tensor padded = Tensor::zeros({1, 4}, i64);
      for (int64_t s = 0; s < length; ++s) padded.data<int64_t>()[s] = labels[static_cast<size_t>(s)];
      const double got = ctc_loss(Variable(log_probs.unsqueeze(1)), padded, tensor({int(frames)}),
                                  tensor({int(length)}), 0, LossReduction::sum)
                             .item();
      const double expected = enumerated_ctc(log_probs, labels, 0);
      INFO(frames, " frames, ", length, " labels");
      if (std::isinf(expected))
        CHECK(got == infinity);
      else
        CHECK(got == doctest::Approx(expected).epsilon(1e-12));
    }
}

TEST_CASE("ctc: impossible samples, samples without frames, long sequences") {
  const Variable x = Variable::leaf(log_softmax(values({3, 3, 4}), -1));
  const Tensor targets = tensor({{1, 1, 1}, {2, 3, 1}, {1, 2, 3}}), frames = tensor({3, 3, 0}),
               lengths = tensor({3, 2, 0});
  const Variable losses = ctc_loss(x, targets, frames, lengths, 0, LossReduction::none);
  CHECK(losses[0].item() == infinity);
  CHECK(std::isfinite(losses[1].item()));
  CHECK(losses[2].item() == 0);
  const Variable finite = ctc_loss(x, targets, frames, lengths, 0, LossReduction::none, true);
  CHECK(finite[0].item() == 0);
  CHECK(finite[1].item() == losses[1].item());
  sum(finite).backward();
  const Tensor gradient = x.grad().value();
  CHECK(array_equal(gradient.select(1, 0), zeros({3, 4}, f64)));
  CHECK(array_equal(gradient.select(1, 2), zeros({3, 4}, f64)));
  CHECK(gradient.select(1, 1).sum().item() == doctest::Approx(-3).epsilon(1e-12));  // one path a frame

  // 2,000 equal frames of two classes: the loss is 2000 log 2 - log(the number of alignments of 300 labels).
  const Tensor same = full({2000, 1, 2}, -std::log(2.0), f64);
  const double loss =
      ctc_loss(Variable(same), ones({1, 300}, i64), tensor({2000}), tensor({300}), 0, LossReduction::sum)
          .item();
  const double alignments = std::lgamma(2002) - std::lgamma(601) - std::lgamma(1402);  // of 2001 over 600
  CHECK(loss == doctest::Approx(2000 * std::log(2.0) - alignments).epsilon(1e-9));
  CHECK(ctc_loss(Variable(same.to(f32)), ones({1, 300}, i64), tensor({2000}), tensor({300})).dtype() == f32);
}

TEST_CASE("losses: refusals of arguments name the loss") {
  const Variable x = zeros({2, 3}), y = zeros({3});
  const Tensor ids = tensor({0, 3}), good = tensor({0, 2});
  CHECK_THROWS_WITH_AS(huber_loss(x, y), "huber_loss: expected a target of x's shape (2, 3), got (3,)",
                       ShapeError);
  CHECK_THROWS_AS(huber_loss(x, x, LossReduction::mean, 0), ValueError);
  CHECK_THROWS_AS(huber_loss(x, x, LossReduction::mean, nan_value), ValueError);
  CHECK_THROWS_AS(smooth_l1_loss(x, x, LossReduction::mean, nan_value), ValueError);
  CHECK_THROWS_AS(l1_loss(x, x, LossReduction::mean, y), ShapeError);
  CHECK_THROWS_AS(huber_loss(x, x, LossReduction::mean, 1, y), ShapeError);
  CHECK_THROWS_AS(mse_loss(x, x, static_cast<LossReduction>(9)), ValueError);
  CHECK_THROWS_AS(soft_margin_loss(x, x, static_cast<LossReduction>(9)), ValueError);
  CHECK_THROWS_WITH_AS(loss_reduction("avg"),
                       "expected the reduction \"none\", \"mean\" or \"sum\", got \"avg\"", ValueError);
  CHECK(loss_reduction("sum") == LossReduction::sum);
  CHECK_THROWS_AS(kl_reduction("avg"), ValueError);
  CHECK_THROWS_AS(l1_loss(zeros({2}, i64), zeros({2}, i64)), DTypeError);
  CHECK_THROWS_AS(nll_loss(x, ids, Tensor()), IndexError);
  CHECK_THROWS_WITH_AS(
      nll_loss(x, tensor({-1, 0}), Tensor()),
      "nll_loss: target -1 at element 0 is not a class: they go from 0 to 2, and -100 is ignored",
      IndexError);
  CHECK_THROWS_AS(nll_loss(x, good, zeros({2})), ShapeError);
  CHECK_THROWS_AS(nll_loss(x, good, zeros({3}, f64)), DTypeError);
  CHECK_THROWS_AS(nll_loss(x, zeros({2}), Tensor()), DTypeError);
  CHECK(std::isnan(nll_loss(x, tensor({-100, -100}), Tensor()).item()));
  CHECK_THROWS_AS(cross_entropy(x, Variable(zeros({2, 4}))), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, x, {.label_smoothing = 2}), ValueError);
  CHECK_THROWS_AS(cross_entropy(x, x, {}, zeros({4})), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy(x + 2.0, x, x), ValueError);
  CHECK_THROWS_AS(binary_cross_entropy(x, x, zeros({4})), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(x, x, zeros({2, 2, 3})), ShapeError);
  CHECK_THROWS_AS(poisson_nll_loss(x, y), ShapeError);
  CHECK_THROWS_AS(poisson_nll_loss(x, x, false, false, nan_value), ValueError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, x, Variable(zeros({5}))), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, x, -1.0), ValueError);
  CHECK_THROWS_AS(gaussian_nll_loss(x, x, x - 1.0), ValueError);
  CHECK(gaussian_nll_loss(x, x + 1.0, 2.0).item() == doctest::Approx((std::log(2.0) + 0.5) / 2));
  CHECK_THROWS_AS(cosine_embedding_loss(x, y, y), ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(x, x, y), ShapeError);
  CHECK_THROWS_AS(margin_ranking_loss(x, x, x, nan_value), ValueError);
  CHECK_THROWS_AS(hinge_embedding_loss(x, y), ShapeError);
  CHECK_THROWS_AS(triplet_margin_loss(x, x, x, 0), ValueError);
  CHECK_THROWS_AS(triplet_margin_loss(x, x, y), ShapeError);
  CHECK_THROWS_AS(multi_margin_loss(x, good, 3), ValueError);
  CHECK_THROWS_AS(multi_margin_loss(x, ids), IndexError);
  CHECK_THROWS_AS(multi_margin_loss(x, tensor({0})), ShapeError);
  CHECK_THROWS_AS(multilabel_margin_loss(x, zeros({3}, i64)), ShapeError);
  CHECK_THROWS_AS(multilabel_margin_loss(x, full({2, 3}, 7, i64)), IndexError);
  CHECK_THROWS_AS(multilabel_soft_margin_loss(x, y), ShapeError);
  CHECK_THROWS_AS(soft_margin_loss(x, y), ShapeError);
}

TEST_CASE("ctc: refusals of shapes, lengths and labels") {
  const Variable x = zeros({4, 2, 3});
  const Tensor targets = tensor({{1, 2}, {2, 1}}), frames = tensor({4, 4}), lengths = tensor({2, 1});
  CHECK_THROWS_AS(ctc_loss(Variable(zeros({4})), targets, frames, lengths), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, targets, tensor({4}), lengths), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, tensor({{1, 2}}), frames, lengths), ShapeError);
  CHECK_THROWS_WITH_AS(ctc_loss(x, tensor({1, 2}), frames, lengths),
                       "ctc_loss: expected 3 targets, the sum of the target lengths, got 2", ShapeError);
  CHECK_THROWS_WITH_AS(ctc_loss(x, targets, tensor({4, 5}), lengths),
                       "ctc_loss: expected input lengths from 0 to 4, got 5 for sample 1", ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, frames, tensor({3, 1})), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, frames, tensor({-1, 1})), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, frames, lengths, 3), IndexError);
  CHECK_THROWS_AS(ctc_loss(x, targets, frames, lengths, -1), IndexError);
  CHECK_THROWS_WITH_AS(
      ctc_loss(x, tensor({{1, 3}, {2, 1}}), frames, lengths),
      "ctc_loss: target 3 at position 1 of sample 0 is no label: they go from 0 to 2 without "
      "the blank 0",
      IndexError);
  CHECK_THROWS_AS(ctc_loss(x, tensor({{1, 0}, {2, 1}}), frames, lengths), IndexError);
  CHECK_THROWS_AS(ctc_loss(x, targets, frames, tensor({2.0, 1.0})), DTypeError);
  CHECK_THROWS_AS(ctc_loss(Variable(zeros({4, 2, 3}, i64)), targets, frames, lengths), DTypeError);
}
