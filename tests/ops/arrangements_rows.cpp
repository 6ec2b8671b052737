#include "autograd/functions/composed/arrangements.h"

#include "tests/ops/table.h"

namespace tessera::test {
namespace {

OpRow row(const char* name, std::function<Results(const CaseInputs&)> call) {
  return {.name = name, .family = "arrangements", .call = std::move(call)};
}

std::vector<Variable> pieces(const CaseInputs& g) {
  if (g.has("sections")) return tensor_split(g[0], g.integer("sections"), g.integer("dim"));
  const Shape indices = g.shape("indices");
  return tensor_split(g[0], {indices[0], indices[1]}, g.integer("dim"));
}

}  // namespace

std::vector<OpRow> arrangements_rows() {
  std::vector<OpRow> rows = {
      row("tensor_split", [](const CaseInputs& g) { return pieces(g); }),
      row("unfold_along",
          [](const CaseInputs& g) {
            return unfold_along(g[0], g.integer("dim"), g.integer("size"), g.integer("step"));
          }),
      row("block_diag",
          [](const CaseInputs& g) {
            return block_diag({g[0], g[1], g[2]});
          }),
      row("cartesian_prod",
          [](const CaseInputs& g) { return cartesian_prod(std::span<const Variable>(g.inputs)); }),
      row("combinations",
          [](const CaseInputs& g) { return combinations(g[0], g.integer("r"), g.flag("with_replacement")); }),
      row("diag_embed",
          [](const CaseInputs& g) {
            return diag_embed(g[0], g.integer("offset"), g.integer("dim1"), g.integer("dim2"));
          }),
      row("diagonal_scatter",
          [](const CaseInputs& g) {
            return diagonal_scatter(g[0], g[1], g.integer("offset"), g.integer("dim1"), g.integer("dim2"));
          }),
      row("select_scatter",
          [](const CaseInputs& g) {
            return select_scatter(g[0], g[1], g.integer("dim"), g.integer("index"));
          }),
      row("slice_scatter",
          [](const CaseInputs& g) {
            return slice_scatter(g[0], g[1], g.integer("dim"), g.integer("start"), g.integer("end"),
                                 g.integer("step"));
          }),
      row("rot90", [](const CaseInputs& g) { return rot90(g[0], g.integer("k"), g.shape("dims")); }),
      row("swapaxes", [](const CaseInputs& g) { return swapaxes(g[0], g.integer("a"), g.integer("b")); }),
      row("vander",
          [](const CaseInputs& g) { return vander(g[0], g.integer("columns"), g.flag("increasing")); }),
  };
  return rows;
}

}  // namespace tessera::test
