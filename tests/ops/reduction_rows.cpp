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
          .call = [=](const Given& g) { return function(g[0], g.shape("axes"), g.flag("keepdim")); },
          .tolerance = tolerance};
}

OpRow raw_row(const char* name, RawReduce function) {
  return {.name = name, .family = "reduction", .call = [=](const Given& g) {
            return function(g.tensor(0), g.shape("axes"), g.flag("keepdim"));
          }};
}

OpRow find_row(const char* name, Find function) {
  return {.name = name, .family = "reduction", .call = [=](const Given& g) {
            return function(g.tensor(0), g.integer("axis"), g.flag("keepdim"));
          }};
}

OpRow deviation_row(const char* name, Variable (*function)(const Variable&, const Shape&, bool, int64_t)) {
  return {.name = name, .family = "reduction", .call = [=](const Given& g) {
            return function(g[0], g.shape("axes"), g.flag("keepdim"), g.integer("correction"));
          }};
}

/// An infinite p has a result and no gradient here.
Results norm_as_given(const Given& g) {
  return norm(g[0], g.real("p"), g.shape("axes"), g.flag("keepdim"));
}

std::map<std::string, std::string> infinite_norms() {
  std::map<std::string, std::string> except;
  for (const OpCase& c : golden_cases("reduction", "norm"))
    if (c.name.ends_with("_pinf"))
      except[c.name] = "the gradient of a norm of infinite p is not offered; max of abs has one";
  return except;
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  OpRow product = row("prod", prod);
  product.except = {{"zeros", "the gradient divides the product by each factor, which zeros forbid"}};
  return {
      row("sum", sum),
      row("mean", mean),
      product,
      row("max", max),
      row("min", min),
      raw_row("any", ops::any),
      raw_row("all", ops::all),
      find_row("argmax", ops::argmax),
      find_row("argmin", ops::argmin),
      deviation_row("var", var),
      deviation_row("std", std),
      {.name = "norm", .family = "reduction", .call = norm_as_given, .except = infinite_norms()},
  };
}

}  // namespace tessera::test
