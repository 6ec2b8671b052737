#include "tensor/ops/creation/creation.h"

#include "autograd/functions/elementwise/broadcasting.h"
#include "autograd/functions/elementwise/cast.h"
#include "autograd/functions/layers/dropout.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

/// A case without a golden; the expected results are given.
std::vector<OpCase> one_case(std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
  return {{.name = "by_hand", .inputs = std::move(inputs), .outputs = std::move(outputs)}};
}

Results arange_as_given(const CaseInputs& g) {
  if (g.real("step") == static_cast<double>(static_cast<int64_t>(g.real("step"))))
    return ops::arange(g.integer("start"), g.integer("stop"), g.integer("step"), i64);
  return ops::arange(g.real("start"), g.real("stop"), g.real("step"), f64);
}

std::vector<OpRow> rows_without_gradient() {
  return {
      {.name = "arange", .family = "movement", .call = arange_as_given},
      {.name = "linspace",
       .family = "movement",
       .call =
           [](const CaseInputs& g) {
             return ops::linspace(g.real("start"), g.real("stop"), g.integer("count"), f64);
           }},
      {.name = "zeros",
       .call = [](const CaseInputs&) { return ops::zeros({2}, i64); },
       .cases =
           [] {
             return one_case({}, {Tensor::from<int64_t>({0, 0})});
           }},
      {.name = "ones",
       .call = [](const CaseInputs&) { return ops::ones({2}, f32); },
       .cases =
           [] {
             return one_case({}, {Tensor::from({1.0f, 1.0f})});
           }},
      {.name = "full",
       .call = [](const CaseInputs&) { return ops::full({3}, -2.5, f64); },
       .cases =
           [] {
             return one_case({}, {Tensor::from({-2.5, -2.5, -2.5})});
           }},
  };
}

/// A differentiable op whose expected result and gradient are given.
OpRow row_by_hand(const char* name, std::function<Results(const CaseInputs&)> call, Tensor input,
                  Tensor output, Tensor grad_outputs, Tensor gradient) {
  const OpCase by_hand{.name = "by_hand",
                       .inputs = {std::move(input)},
                       .outputs = {std::move(output)},
                       .grad_outputs = {std::move(grad_outputs)},
                       .gradients = {std::move(gradient)}};
  return {.name = name, .call = std::move(call), .cases = [=] { return std::vector{by_hand}; }};
}

}  // namespace

std::vector<OpRow> creation_rows() {
  std::vector<OpRow> rows = rows_without_gradient();
  const Tensor column = Tensor::from({1.0, -2.0}, {2, 1}), row = Tensor::from({3.0, 0.5}, {1, 2});
  const Tensor square = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2});
  rows.push_back(row_by_hand(
      "broadcast_to",
      [](const CaseInputs& g) {
        return broadcast_to(g[0], {2, 2});
      },
      column, Tensor::from({1.0, 1.0, -2.0, -2.0}, {2, 2}), square, Tensor::from({3.0, 7.0}, {2, 1})));
  rows.push_back(row_by_hand(
      "sum_to",
      [](const CaseInputs& g) {
        return sum_to(g[0], {1, 2});
      },
      square, Tensor::from({4.0, 6.0}, {1, 2}), row, Tensor::from({3.0, 0.5, 3.0, 0.5}, {2, 2})));
  // An f64 input is returned itself; narrower types are converted, and their gradients are converted back.
  rows.push_back(row_by_hand(
      "cast", [](const CaseInputs& g) { return cast(g[0], f64); }, square, square, square, square));
  // The mask is drawn from a key, so it is the same in every call and the op is a linear function.
  rows.push_back(
      {.name = "dropout",
       .call = [](const CaseInputs& g) { return dropout(g[0], 0.25, 7); },
       .cases =
           [=] { return std::vector<OpCase>{{.name = "key", .inputs = {square}, .differentiable = true}}; }});
  rows.push_back({.name = "multinomial", .tested_in = "tests/tensor/ops/creation/random_test.cpp"});
  rows.push_back({.name = "pin_memory", .tested_in = "tests/cuda/device/host_copies_test.cpp"});
  rows.push_back({.name = "to_device", .tested_in = "tests/cuda/device/host_copies_test.cpp"});
  rows.push_back({.name = "power_sums", .tested_in = "tests/optim/clip_test.cpp"});
  rows.push_back({.name = "scale_and_find_nonfinite", .tested_in = "tests/optim/grad_scaler_test.cpp"});
  rows.push_back({.name = "zero_in_place", .tested_in = "tests/optim/state_test.cpp"});
  return rows;
}

}  // namespace tessera::test
