#include "autograd/functions/shaping.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call) {
  return {.name = name, .family = "movement", .call = std::move(call)};
}

}  // namespace

std::vector<OpRow> shaping_rows() {
  return {
      row("flip", [](const CaseInputs& g) { return flip(g[0], g.shape("axes")); }),
      row("repeat", [](const CaseInputs& g) { return repeat(g[0], g.shape("repeats")); }),
      row("cat", [](const CaseInputs& g) { return cat(g.inputs, g.integer("axis")); }),
      row("stack", [](const CaseInputs& g) { return stack(g.inputs, g.integer("axis")); }),
      row("split", [](const CaseInputs& g) { return split(g[0], g.integers("sizes"), g.integer("axis")); }),
      row("chunk", [](const CaseInputs& g) { return chunk(g[0], g.integer("chunks"), g.integer("axis")); }),
      row("pad",
          [](const CaseInputs& g) {
            return pad(g[0], g.shape("before"), g.shape("after"), g.real("value"));
          }),
      row("tril", [](const CaseInputs& g) { return tril(g[0], g.integer("diagonal")); }),
      row("triu", [](const CaseInputs& g) { return triu(g[0], g.integer("diagonal")); }),
      row("roll", [](const CaseInputs& g) { return roll(g[0], g.integer("shift"), g.integer("axis")); }),
  };
}

}  // namespace tessera::test
