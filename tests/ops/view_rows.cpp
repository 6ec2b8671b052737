#include "autograd/functions/view.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Call = std::function<Results(const CaseInputs&)>;

OpRow row(const char* name, Call call) {
  return {.name = name, .family = "movement", .call = std::move(call)};
}

/// An op without a golden: its case is a (2, 3, 4) tensor, checked by its shape and by finite differences.
OpRow row_without_golden(const char* name, Call call) {
  return {.name = name, .call = std::move(call), .cases = [] {
            OpCase counted;
            counted.name = "counted";
            counted.differentiable = true;
            counted.inputs = {Tensor::empty({2, 3, 4}, f64)};
            for (int64_t i = 0; i < 24; ++i)
              counted.inputs[0].data<double>()[i] = static_cast<double>(i % 7) - 2.5;
            return std::vector{counted};
          }};
}

}  // namespace

std::vector<OpRow> view_rows() {
  return {
      row("reshape", [](const CaseInputs& g) { return reshape(g[0], g.shape("shape")); }),
      row("permute", [](const CaseInputs& g) { return permute(g[0], g.shape("axes")); }),
      row("transpose",
          [](const CaseInputs& g) { return transpose(g[0], g.integer("axis0"), g.integer("axis1")); }),
      row("expand", [](const CaseInputs& g) { return expand(g[0], g.shape("shape")); }),
      row("squeeze", [](const CaseInputs& g) { return squeeze(g[0], g.integer("axis")); }),
      row("unsqueeze", [](const CaseInputs& g) { return unsqueeze(g[0], g.integer("axis")); }),
      row("slice",
          [](const CaseInputs& g) {
            return slice(g[0], g.integer("axis"), g.integer("start"), g.integer("stop"), g.integer("step"));
          }),
      row_without_golden("view",
                         [](const CaseInputs& g) {
                           return view(reshape(g[0], {24}), {4, 6});
                         }),
      row_without_golden("flatten", [](const CaseInputs& g) { return flatten(transpose(g[0], 0, 1), 0, 1); }),
      row_without_golden("narrow", [](const CaseInputs& g) { return narrow(g[0], 1, 1, 2); }),
      row_without_golden("select", [](const CaseInputs& g) { return select(g[0], -1, -2); }),
  };
}

}  // namespace tessera::test
