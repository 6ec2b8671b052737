#include "autograd/functions/loss.h"

#include <numbers>

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

LossReduction reduction_of(const Given& g) {
  const std::string name = g.text("reduction");
  return name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
}

Variable cross_entropy_as_given(const Given& g) {
  const CrossEntropyOptions options{.ignore_index = g.integer("ignore_index"),
                                    .label_smoothing = g.real("label_smoothing"),
                                    .reduction = reduction_of(g)};
  return cross_entropy(g[0], g.tensor(1), options, g.optional_tensor(2));
}

Variable linear_cross_entropy_as_given(const Given& g) {
  const CrossEntropyOptions options{.ignore_index = g.integer("ignore_index"),
                                    .label_smoothing = g.real("label_smoothing"),
                                    .reduction = reduction_of(g)};
  const Variable bias = g.flag("bias") ? g[3] : Variable();
  return linear_cross_entropy(g[0], g[1], g.tensor(2), options, bias,
                              g.optional_tensor(g.flag("bias") ? 4 : 3));
}

constexpr const char* plain =
    R"({"ignore_index": -100, "label_smoothing": 0, "reduction": "mean", "bias": false})";

/// Two equal logits of 2^24, where f32 has no digits behind the point: the loss is log 2.
std::vector<OpCase> large_logits() {
  return {{.name = "large",
           .arguments = Arguments(plain),
           .inputs = {Tensor::from({0x1p24, 0x1p24}, {1, 2}), Tensor::from<int64_t>({0})},
           .outputs = {Tensor::scalar(std::numbers::ln2)},
           .incoming = {Tensor::scalar(2.0)},
           .gradients = {Tensor::from({-1.0, 1.0}, {1, 2}), Tensor()},
           .no_differences = true}};
}

/// The same from a head, by an input of 2^24.
std::vector<OpCase> large_products() {
  return {{.name = "large",
           .arguments = Arguments(plain),
           .inputs = {Tensor::from({0x1p24}, {1, 1}), Tensor::from({1.0, 1.0}, {2, 1}),
                      Tensor::from<int64_t>({0})},
           .outputs = {Tensor::scalar(std::numbers::ln2)},
           .incoming = {Tensor::scalar(2.0)},
           .gradients = {Tensor::from({0.0}, {1, 1}), Tensor::from({-0x1p24, 0x1p24}, {2, 1}), Tensor()},
           .no_differences = true}};
}

}  // namespace

std::vector<OpRow> loss_rows() {
  return {
      {.name = "cross_entropy", .family = "loss", .call = cross_entropy_as_given, .cases = large_logits},
      {.name = "linear_cross_entropy",
       .family = "loss",
       .call = linear_cross_entropy_as_given,
       .cases = large_products},
      {.name = "mse_loss",
       .family = "loss",
       .call = [](const Given& g) { return mse_loss(g[0], g[1], reduction_of(g)); }},
      {.name = "bce_with_logits",
       .family = "loss",
       .call = [](const Given& g) { return bce_with_logits(g[0], g[1], reduction_of(g)); }},
  };
}

}  // namespace tessera::test
