#include "autograd/functions/elementwise/unary.h"
#include "autograd/functions/layers/softmax.h"
#include "autograd/functions/losses/classification.h"
#include "autograd/functions/losses/ctc_loss.h"
#include "autograd/functions/losses/distances.h"
#include "autograd/functions/losses/regression.h"
#include "autograd/functions/reduction.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Function = std::function<Results(const CaseInputs&)>;

OpRow row(const char* name, Function call, Tolerance tolerance = {}, const char* golden = "") {
  return {
      .name = name, .family = "losses", .call = std::move(call), .golden = golden, .tolerance = tolerance};
}

LossReduction reduction_of(const CaseInputs& g) {
  return loss_reduction(g.text("reduction"));
}

void append_regression(std::vector<OpRow>& rows) {
  rows.push_back(row(
      "l1_loss", [](const CaseInputs& g) { return l1_loss(g[0], g[1], reduction_of(g), g.optional(2)); }));
  rows.push_back(row(
      "mse_loss", [](const CaseInputs& g) { return mse_loss(g[0], g[1], reduction_of(g), g.optional(2)); }));
  rows.push_back(row("huber_loss", [](const CaseInputs& g) {
    return huber_loss(g[0], g[1], reduction_of(g), g.real("delta"), g.optional(2));
  }));
  rows.push_back(row("smooth_l1_loss", [](const CaseInputs& g) {
    return smooth_l1_loss(g[0], g[1], reduction_of(g), g.real("beta"));
  }));
  rows.push_back(row("poisson_nll_loss", [](const CaseInputs& g) {
    return poisson_nll_loss(g[0], g[1], g.flag("log_input"), g.flag("full"), g.real("eps"), reduction_of(g));
  }));
  rows.push_back(row("gaussian_nll_loss",
                     [](const CaseInputs& g) {
                       return gaussian_nll_loss(g[0], g[1], g[2], g.flag("full"), g.real("eps"),
                                                reduction_of(g));
                     },
                     {.bf16 = 0x1p-5, .reason = "a variance of a row sums rounded terms that cancel"}));
}

void append_classification(std::vector<OpRow>& rows) {
  rows.push_back(row("nll_loss", [](const CaseInputs& g) {
    return nll_loss(g[0], g.tensor(1), g.optional_tensor(2), g.integer("ignore_index"), reduction_of(g),
                    g.integer("class_dim"));
  }));
  rows.push_back(row(
      "cross_entropy",
      [](const CaseInputs& g) {
        const CrossEntropyOptions options{.label_smoothing = g.real("label_smoothing"),
                                          .reduction = reduction_of(g)};
        return cross_entropy(g[0], g[1], options, g.optional_tensor(2));
      },
      {}, "cross_entropy_soft"));
  rows.push_back(row("binary_cross_entropy", [](const CaseInputs& g) {
    return binary_cross_entropy(g[0], g[1], g.optional(2), reduction_of(g));
  }));
  rows.push_back(row("binary_cross_entropy_with_logits", [](const CaseInputs& g) {
    return binary_cross_entropy_with_logits(g[0], g[1], g.optional(2), reduction_of(g), g.optional(3));
  }));
  rows.push_back(row("kl_div", [](const CaseInputs& g) {
    return kl_div(g[0], g[1], kl_reduction(g.text("reduction")), g.flag("log_target"));
  }));
  rows.push_back(row("soft_margin_loss",
                     [](const CaseInputs& g) { return soft_margin_loss(g[0], g[1], reduction_of(g)); }));
  rows.push_back(row("multi_margin_loss", [](const CaseInputs& g) {
    return multi_margin_loss(g[0], g.tensor(1), g.integer("p"), g.real("margin"), g.optional_tensor(2),
                             reduction_of(g));
  }));
  rows.push_back(row("multilabel_margin_loss", [](const CaseInputs& g) {
    return multilabel_margin_loss(g[0], g.tensor(1), reduction_of(g));
  }));
  rows.push_back(row("multilabel_soft_margin_loss", [](const CaseInputs& g) {
    return multilabel_soft_margin_loss(g[0], g[1], g.optional(2), reduction_of(g));
  }));
}

void append_distances(std::vector<OpRow>& rows) {
  rows.push_back(row("pairwise_distance", [](const CaseInputs& g) {
    return pairwise_distance(g[0], g[1], g.real("p"), g.real("eps"), g.flag("keepdim"));
  }));
  rows.push_back(
      row("cosine_embedding_loss",
          [](const CaseInputs& g) {
            return cosine_embedding_loss(g[0], g[1], g[2], g.real("margin"), reduction_of(g));
          },
          {.bf16 = 0x1p-2, .f16 = 0x1p-5, .reason = "1 - cosine cancels where vectors are nearly parallel"}));
  rows.push_back(row("margin_ranking_loss", [](const CaseInputs& g) {
    return margin_ranking_loss(g[0], g[1], g[2], g.real("margin"), reduction_of(g));
  }));
  rows.push_back(row("hinge_embedding_loss", [](const CaseInputs& g) {
    return hinge_embedding_loss(g[0], g[1], g.real("margin"), reduction_of(g));
  }));
  rows.push_back(row("triplet_margin_loss", [](const CaseInputs& g) {
    return triplet_margin_loss(g[0], g[1], g[2], g.real("margin"), g.real("p"), g.real("eps"), g.flag("swap"),
                               reduction_of(g));
  }));
  rows.push_back(row("triplet_margin_with_distance_loss",
                     [](const CaseInputs& g) {
                       const DistanceFunction squared = [](const Variable& a, const Variable& b) {
                         return sum(square(a - b), {-1});
                       };
                       return triplet_margin_with_distance_loss(g[0], g[1], g[2], squared, g.real("margin"),
                                                                g.flag("swap"), reduction_of(g));
                     },
                     {.bf16 = 0x1p-4, .f16 = 0x1p-7, .reason = "a difference of rounded sums of squares"}));
}

}  // namespace

std::vector<OpRow> losses_rows() {
  std::vector<OpRow> rows;
  append_regression(rows);
  append_classification(rows);
  append_distances(rows);
  rows.push_back(row("ctc_loss", [](const CaseInputs& g) {
    return ctc_loss(log_softmax(g[0], -1), g.tensor(1), g.tensor(2), g.tensor(3), g.integer("blank"),
                    reduction_of(g), g.flag("zero_infinity"));
  }));
  for (const char* name : {"elementwise_loss", "fused_loss"})
    rows.push_back({.name = name, .tested_in = "tests/autograd/losses_test.cpp"});
  return rows;
}

}  // namespace tessera::test
