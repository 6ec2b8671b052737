#include "autograd/functions/layers/loss.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

LossReduction reduction_of(const CaseInputs& g) {
  const std::string name = g.text("reduction");
  return name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
}

Variable cross_entropy_as_given(const CaseInputs& g) {
  const CrossEntropyOptions options{.ignore_index = g.integer("ignore_index"),
                                    .label_smoothing = g.real("label_smoothing"),
                                    .reduction = reduction_of(g)};
  return cross_entropy(g[0], g.tensor(1), options, g.optional_tensor(2));
}

Variable linear_cross_entropy_as_given(const CaseInputs& g) {
  const CrossEntropyOptions options{.ignore_index = g.integer("ignore_index"),
                                    .label_smoothing = g.real("label_smoothing"),
                                    .reduction = reduction_of(g)};
  const Variable bias = g.flag("bias") ? g.optional(3) : Variable();
  return linear_cross_entropy(g[0], g[1], g.tensor(2), options, bias,
                              g.optional_tensor(g.flag("bias") ? 4 : 3));
}

}  // namespace

std::vector<OpRow> loss_rows() {
  return {
      {.name = "cross_entropy", .family = "loss", .call = cross_entropy_as_given},
      {.name = "linear_cross_entropy", .family = "loss", .call = linear_cross_entropy_as_given},
      {.name = "cross_entropy",
       .family = "edges",
       .call = cross_entropy_as_given,
       .twice_differentiable = false,
       .differences = false},
      {.name = "linear_cross_entropy",
       .family = "edges",
       .call = linear_cross_entropy_as_given,
       .twice_differentiable = false,
       .differences = false},
      {.name = "mse_loss",
       .family = "loss",
       .call = [](const CaseInputs& g) { return mse_loss(g[0], g[1], reduction_of(g)); }},
      {.name = "bce_with_logits",
       .family = "loss",
       .call = [](const CaseInputs& g) { return bce_with_logits(g[0], g[1], reduction_of(g)); }},
  };
}

}  // namespace tessera::test
