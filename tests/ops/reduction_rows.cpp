#include "autograd/functions/reduction.h"

#include <limits>

#include "autograd/functions/sorting.h"
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

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor row_of(std::initializer_list<double> values) {
  return Tensor::from(values, {1, static_cast<int64_t>(values.size())});
}

/// A case along the last axis of one row, at whose result 2 arrives.
OpCase edge(const char* name, const char* arguments, std::initializer_list<double> x, double result,
            std::initializer_list<double> gradient) {
  return {.name = name,
          .arguments = Arguments(arguments),
          .inputs = {row_of(x)},
          .outputs = {Tensor::from({result})},
          .incoming = {Tensor::from({2.0})},
          .gradients = {row_of(gradient)},
          .no_differences = true};
}

/// Extremes among which there are NaNs, the same for the largest and the smallest: those are the result.
std::vector<OpCase> extremes_with_nan() {
  const char* last = R"({"axes": [1], "keepdim": false})";
  OpCase rows = edge("nan_in_one_row", last, {}, 0, {});
  rows.inputs = {Tensor::from({1.5, nan, 2.0, 2.0}, {2, 2})};
  rows.outputs = {Tensor::from({nan, 2.0})};
  rows.incoming = {Tensor::from({2.0, 3.0})};
  rows.gradients = {Tensor::from({0.0, 2.0, 1.5, 1.5}, {2, 2})};
  return {edge("two_nans", last, {nan, 1, nan}, nan, {1, 0, 1}),
          edge("all_nan", last, {nan, nan}, nan, {1, 1}),
          edge("nan_beside_infinity", last, {infinity, nan, -infinity}, nan, {0, 2, 0}), rows};
}

/// Deviations of equal values, and over no degree of freedom.
std::vector<OpCase> deviations_of_equal_values(double none_left) {
  const char* first = R"({"axes": [1], "keepdim": false, "correction": 1})";
  const char* second = R"({"axes": [1], "keepdim": false, "correction": 2})";
  const char* third = R"({"axes": [1], "keepdim": false, "correction": 3})";
  return {edge("equal", first, {2, 2, 2, 2}, 0, {0, 0, 0, 0}),
          edge("no_freedom", second, {1, 2}, infinity, {none_left, none_left}),
          edge("less_than_no_freedom", third, {1, 2}, infinity, {none_left, none_left}),
          edge("equal_without_freedom", second, {3, 3}, nan, {nan, nan}),
          edge("one_value", first, {3}, nan, {nan})};
}

OpRow edge_row(OpRow row, std::vector<OpCase> cases) {
  row.family = "";
  row.cases = [cases = std::move(cases)] { return cases; };
  row.twice_differentiable = false;
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

std::map<std::string, std::string> infinite_norms_apart() {
  std::map<std::string, std::string> except;
  for (const OpCase& c : infinite_norms()) except[c.name] = "in a row of its own";
  return except;
}

Results norm_as_given(const Given& g) {
  return norm(g[0], g.real("p"), g.shape("axes"), g.flag("keepdim"));
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  return {
      row("sum", sum),
      edge_row(row("max", max), extremes_with_nan()),
      edge_row(row("min", min), extremes_with_nan()),
      edge_row(deviation_row("var", var), deviations_of_equal_values(infinity)),
      edge_row(deviation_row("std", std), deviations_of_equal_values(nan)),
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
      {.name = "norm", .family = "reduction", .call = norm_as_given, .except = infinite_norms_apart()},
      // The goldens' largest magnitudes come in pairs, x and -x: a kink, where there is no second derivative.
      {.name = "norm", .call = norm_as_given, .cases = infinite_norms, .twice_differentiable = false},
      {.name = "cumsum",
       .family = "reduction",
       .call = [](const Given& g) { return cumsum(g[0], g.integer("axis")); }},
  };
}

}  // namespace tessera::test
