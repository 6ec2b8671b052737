#include "autograd/functions/reduction.h"

#include "tensor/ops/reduction.h"
#include "tests/ops/table.h"

namespace tessera::test {
namespace {

using Reduce = Variable (*)(const Variable&, const Shape&, bool);
using RawReduce = Tensor (*)(const Tensor&, const Shape&, bool);
using Find = Tensor (*)(const Tensor&, int64_t, bool);

OpRow row(const char* name, Reduce function, Tolerance tolerance = {}) {
  return {.name = name,
          .family = "reduction",
          .call = [=](const CaseInputs& g) { return function(g[0], g.shape("axes"), g.flag("keepdim")); },
          .tolerance = tolerance};
}

OpRow raw_row(const char* name, RawReduce function) {
  return {.name = name, .family = "reduction", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0), g.shape("axes"), g.flag("keepdim"));
          }};
}

OpRow find_row(const char* name, Find function) {
  return {.name = name, .family = "reduction", .call = [=](const CaseInputs& g) {
            return function(g.tensor(0), g.integer("axis"), g.flag("keepdim"));
          }};
}

OpRow deviation_row(const char* name, Variable (*function)(const Variable&, const Shape&, bool, int64_t)) {
  return {.name = name, .family = "reduction", .call = [=](const CaseInputs& g) {
            return function(g[0], g.shape("axes"), g.flag("keepdim"), g.integer("correction"));
          }};
}

/// Cases where finite differences do not give the derivative.
OpRow edge_row(OpRow row) {
  row.family = "edges";
  row.twice_differentiable = false;
  row.differences = false;
  return row;
}

bool is_infinite_norm(const OpCase& c) {
  return c.name.ends_with("_pinf");
}

std::vector<OpCase> infinite_norms() {
  std::vector<OpCase> cases = golden_cases("reduction", "norm");
  std::erase_if(cases, [](const OpCase& c) { return !is_infinite_norm(c); });
  return cases;
}

std::map<std::string, std::string> without_infinite_norms() {
  std::map<std::string, std::string> except;
  for (const OpCase& c : infinite_norms()) except[c.name] = "checked in a row of its own";
  return except;
}

Results norm_as_given(const CaseInputs& g) {
  return norm(g[0], g.real("p"), g.shape("axes"), g.flag("keepdim"));
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  return {
      row("sum", sum),
      edge_row(row("max", max)),
      edge_row(row("min", min)),
      edge_row(deviation_row("var", var)),
      edge_row(deviation_row("std", std)),
      row("mean", mean),
      row("prod", prod),
      row("max", max),
      row("min", min),
      raw_row("any", ops::any),
      raw_row("all", ops::all),
      find_row("argmax", ops::argmax),
      find_row("argmin", ops::argmin),
      deviation_row("var", var),
      deviation_row("std", std),
      {.name = "norm", .family = "reduction", .call = norm_as_given, .except = without_infinite_norms()},
      // The goldens' largest magnitudes come in pairs, x and -x: a kink, where there is no second derivative.
      {.name = "norm", .call = norm_as_given, .cases = infinite_norms, .twice_differentiable = false},
      {.name = "logsumexp",
       .family = "softmax",
       .call = [](const CaseInputs& g) { return logsumexp(g[0], g.shape("axes"), g.flag("keepdim")); }},
      {.name = "logsumexp",
       .family = "edges",
       .call = [](const CaseInputs& g) { return logsumexp(g[0], g.shape("axes"), g.flag("keepdim")); },
       .tolerance = {.f64 = 1e-8, .reason = "2^24 + log 2 is one f64 in PyTorch"},
       .twice_differentiable = false,
       .differences = false},
  };
}

}  // namespace tessera::test
