#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Call = std::function<Results(const Given&)>;

OpRow row(const char* name, Call call) {
  return {.name = name, .family = "movement", .call = std::move(call)};
}

/// For what PyTorch's goldens do not name: a (2, 3, 4) tensor, checked by its shape and by differences.
OpRow own_row(const char* name, Call call) {
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

std::vector<OpRow> view_rows() {
  return {
      row("reshape", [](const Given& g) { return reshape(g[0], g.shape("shape")); }),
      row("permute", [](const Given& g) { return permute(g[0], g.shape("axes")); }),
      row("transpose",
          [](const Given& g) { return transpose(g[0], g.integer("axis0"), g.integer("axis1")); }),
      row("expand", [](const Given& g) { return expand(g[0], g.shape("shape")); }),
      row("squeeze", [](const Given& g) { return squeeze(g[0], g.integer("axis")); }),
      row("unsqueeze", [](const Given& g) { return unsqueeze(g[0], g.integer("axis")); }),
      row("slice",
          [](const Given& g) {
            return slice(g[0], g.integer("axis"), g.integer("start"), g.integer("stop"), g.integer("step"));
          }),
      own_row("view",
              [](const Given& g) {
                return view(reshape(g[0], {24}), {4, 6});
              }),
      own_row("flatten", [](const Given& g) { return flatten(transpose(g[0], 0, 1), 0, 1); }),
      own_row("narrow", [](const Given& g) { return narrow(g[0], 1, 1, 2); }),
      own_row("select", [](const Given& g) { return select(g[0], -1, -2); }),
  };
}

std::vector<OpRow> shaping_rows() {
  return {
      row("flip", [](const Given& g) { return flip(g[0], g.shape("axes")); }),
      row("repeat", [](const Given& g) { return repeat(g[0], g.shape("repeats")); }),
      row("cat", [](const Given& g) { return cat(g.inputs, g.integer("axis")); }),
      row("stack", [](const Given& g) { return stack(g.inputs, g.integer("axis")); }),
      row("split", [](const Given& g) { return split(g[0], g.integers("sizes"), g.integer("axis")); }),
      row("chunk", [](const Given& g) { return chunk(g[0], g.integer("chunks"), g.integer("axis")); }),
      row("pad",
          [](const Given& g) { return pad(g[0], g.shape("before"), g.shape("after"), g.real("value")); }),
      row("tril", [](const Given& g) { return tril(g[0], g.integer("diagonal")); }),
      row("triu", [](const Given& g) { return triu(g[0], g.integer("diagonal")); }),
      row("roll", [](const Given& g) { return roll(g[0], g.integer("shift"), g.integer("axis")); }),
  };
}

}  // namespace

std::vector<OpRow> movement_rows() {
  std::vector<OpRow> rows = view_rows();
  for (OpRow& each : shaping_rows()) rows.push_back(std::move(each));
  return rows;
}

}  // namespace tessera::test
