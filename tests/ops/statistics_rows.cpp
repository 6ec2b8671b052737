#include "autograd/functions/composed/statistics.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call) {
  return {.name = name, .family = "statistics", .call = std::move(call)};
}

Results both(const ValuesAndIndices<Variable>& result) {
  return std::vector<Variable>{result.values, Variable(result.indices)};
}

std::optional<int64_t> dim_of(const CaseInputs& g) {
  return g.has("dim") ? std::optional(g.integer("dim")) : std::nullopt;
}

std::string interpolation_of(const CaseInputs& g) {
  return g.has("interpolation") ? g.text("interpolation") : "linear";
}

/// The rule of a kink is PyTorch's convention.
OpRow kinks(const char* name, const char* golden, std::function<Results(const CaseInputs&)> call) {
  OpRow result = row(name, std::move(call));
  result.golden = golden;
  result.twice_differentiable = result.differences = false;
  return result;
}

template <class Integral>
Results integral(const CaseInputs& g, Integral integral_of) {
  if (g.has("dx")) return integral_of(g[0], g.real("dx"), g.integer("dim"));
  return integral_of(g[0], g[1], g.integer("dim"));
}

}  // namespace

std::vector<OpRow> statistics_rows() {
  const auto largest = [](const CaseInputs& g) { return both(cummax(g[0], g.integer("dim"))); };
  const auto smallest = [](const CaseInputs& g) { return both(cummin(g[0], g.integer("dim"))); };
  std::vector<OpRow> rows = {
      row("cummax", largest),
      row("cummin", smallest),
      kinks("cummax", "cummax_kinks", largest),
      kinks("cummin", "cummin_kinks", smallest),
      row("aminmax",
          [](const CaseInputs& g) {
            const auto [low, high] = aminmax(g[0], {g.integer("dim")}, g.flag("keepdim"));
            return std::vector<Variable>{low, high};
          }),
      kinks("nansum", "nansum",
            [](const CaseInputs& g) { return nansum(g[0], g.shape("dims"), g.flag("keepdim")); }),
      kinks("nanmean", "nanmean",
            [](const CaseInputs& g) { return nanmean(g[0], g.shape("dims"), g.flag("keepdim")); }),
      kinks("nanmedian", "nanmedian",
            [](const CaseInputs& g) { return both(nanmedian(g[0], g.integer("dim"), g.flag("keepdim"))); }),
      kinks("nanmedian", "nanmedian_all", [](const CaseInputs& g) { return nanmedian(g[0]); }),
      kinks("mode", "mode_values",
            [](const CaseInputs& g) { return mode(g[0], g.integer("dim"), g.flag("keepdim")).values; }),
      row("quantile",
          [](const CaseInputs& g) {
            return quantile(g[0], g.tensor(1), dim_of(g), g.flag("keepdim"), interpolation_of(g));
          }),
      kinks("nanquantile", "nanquantile",
            [](const CaseInputs& g) {
              return nanquantile(g[0], g.tensor(1), dim_of(g), g.flag("keepdim"), interpolation_of(g));
            }),
      row("renorm",
          [](const CaseInputs& g) { return renorm(g[0], g.real("p"), g.integer("dim"), g.real("maxnorm")); }),
      row("diff",
          [](const CaseInputs& g) {
            return diff(g[0], g.integer("n"), g.integer("dim"), g.optional(1), g.optional(2));
          }),
      row("trapezoid",
          [](const CaseInputs& g) {
            return integral(
                g, [](const Variable& y, const auto& x, int64_t dim) { return trapezoid(y, x, dim); });
          }),
      row("cumulative_trapezoid",
          [](const CaseInputs& g) {
            return integral(g, [](const Variable& y, const auto& x, int64_t dim) {
              return cumulative_trapezoid(y, x, dim);
            });
          }),
      row("cov", [](const CaseInputs& g) { return cov(g[0], g.integer("correction")); }),
      row("corrcoef", [](const CaseInputs& g) { return corrcoef(g[0]); }),
      row("histc",
          [](const CaseInputs& g) { return histc(g[0], g.integer("bins"), g.real("min"), g.real("max")); }),
  };
  rows.push_back({.name = "running_extreme", .tested_in = "tests/tensor/composed/statistics_test.cpp"});
  return rows;
}

}  // namespace tessera::test
