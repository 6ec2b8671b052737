#include "tests/ops/table.h"

#include "autograd/functions/composed.h"
#include "autograd/functions/elementwise/binary.h"
#include "autograd/functions/linalg/composed.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shaping.h"
#include "autograd/functions/view.h"
#include "tensor/functions.h"

/// torch.linalg: vectors that are determined up to a sign are compared as golden_cases/linalg.py records
/// them.
namespace tessera::test {
namespace {

using Function = std::function<Results(const CaseInputs&)>;

/// A solution loses as many digits as its matrix's condition number has; the goldens' are below 100, and
/// PyTorch's own results in f64 have that error, too.
OpRow row(const char* name, Function call) {
  return {.name = name,
          .family = "linalg",
          .call = std::move(call),
          .tolerance = {.f64 = 2e-11, .f32 = 2e-4, .reason = "the condition of the matrices"},
          .narrow = {f32}};
}

Variable transposed(const Variable& x) {
  return transpose(x, -2, -1);
}
Variable symmetric(const Variable& x) {
  return x + transposed(x);
}
Variable definite(const Variable& x) {
  return matmul(x, transposed(x)) + Variable(eye(x.size(-1), x.dtype(), x.device()));
}

/// The sign of the first row of (..., m, n), (..., 1, n).
Variable first_signs(const Variable& vectors) {
  return Variable(ops::sign(narrow(vectors, -2, 0, 1).value()));
}

Results eigh_case(const CaseInputs& g) {
  const auto [w, v] = linalg::eigh(symmetric(g[0]), g.text("uplo"));
  return std::vector<Variable>{w, v.numel() == 0 ? v : v * first_signs(v)};
}

Results svd_case(const CaseInputs& g) {
  const auto [u, s, vh] = linalg::svd(g[0], g.flag("full_matrices"));
  const int64_t k = s.size(-1);
  const Variable left = narrow(u, -1, 0, k), right = narrow(vh, -2, 0, k);
  if (left.numel() == 0) return std::vector<Variable>{left, s, right};
  const Variable sign = first_signs(left);
  return std::vector<Variable>{left * sign, s, right * transposed(sign)};
}

/// The argument "order": a number, "inf", "fro" or "nuc"; without one, none.
std::optional<linalg::MatrixNorm> order_of(const CaseInputs& g) {
  if (!g.has("order")) return {};
  const std::string order = g.text("order");
  if (order == "fro") return linalg::MatrixNorm("fro");
  if (order == "nuc") return linalg::MatrixNorm("nuc");
  return linalg::MatrixNorm(std::stod(order));
}

void append_factorizations(std::vector<OpRow>& rows) {
  rows.push_back(
      row("cholesky", [](const CaseInputs& g) { return linalg::cholesky(definite(g[0]), g.flag("upper")); }));
  rows.push_back(row("lu_factor", [](const CaseInputs& g) {
    const auto [lu, pivots] = linalg::lu_factor(g[0]);
    return std::vector<Variable>{lu, pivots};
  }));
  rows.push_back(row("lu", [](const CaseInputs& g) {
    const auto [p, l, u] = linalg::lu(g[0]);
    return std::vector<Variable>{p, l, u};
  }));
  rows.push_back(row("qr", [](const CaseInputs& g) {
    const auto [q, r] = linalg::qr(g[0], g.text("mode"));
    return std::vector<Variable>{q, r};
  }));
  rows.push_back(row("eigh", eigh_case));
  rows.push_back(row("eigvalsh", [](const CaseInputs& g) { return linalg::eigvalsh(symmetric(g[0])); }));
  rows.push_back(row("svd", svd_case));
  rows.push_back(row("svdvals", [](const CaseInputs& g) { return linalg::svdvals(g[0]); }));
  rows.push_back({.name = "permutation_of", .tested_in = "tests/tensor/ops/linalg/linalg_test.cpp"});
  rows.push_back({.name = "permutation_matrix", .tested_in = "tests/tensor/ops/linalg/linalg_test.cpp"});
}

void append_solves(std::vector<OpRow>& rows) {
  rows.push_back(row("solve", [](const CaseInputs& g) { return linalg::solve(g[0], g[1], g.flag("left")); }));
  rows.push_back(row("solve_triangular", [](const CaseInputs& g) {
    return linalg::solve_triangular(g[0], g[1], g.flag("upper"), g.flag("left"), g.flag("unitriangular"));
  }));
  rows.push_back(row("lu_solve", [](const CaseInputs& g) {
    const auto [lu, pivots] = linalg::lu_factor(g[0]);
    return linalg::lu_solve(lu, pivots, g[1], g.flag("left"), g.flag("adjoint"));
  }));
  rows.push_back(row("inv", [](const CaseInputs& g) { return linalg::inv(g[0]); }));
  rows.push_back(row("det", [](const CaseInputs& g) { return linalg::det(g[0]); }));
  rows.push_back(row("slogdet", [](const CaseInputs& g) {
    const auto [sign, logarithm] = linalg::slogdet(g[0]);
    return std::vector<Variable>{sign, logarithm};
  }));
  rows.push_back(
      row("logdet", [](const CaseInputs& g) { return logdet(g.has("direct") ? g[0] : definite(g[0])); }));
  rows.push_back(row("matrix_exp", [](const CaseInputs& g) { return linalg::matrix_exp(g[0]); }));
  rows.push_back(row("pinv", [](const CaseInputs& g) {
    const bool hermitian = g.flag("hermitian");
    return linalg::pinv(hermitian ? symmetric(g[0]) : g[0], {}, hermitian);
  }));
  rows.push_back(row("lstsq", [](const CaseInputs& g) {
    const auto [solution, residuals, rank, values] = linalg::lstsq(g[0], g[1]);
    return std::vector<Variable>{solution, residuals, rank, values};
  }));
  rows.push_back(row("matrix_rank",
                     [](const CaseInputs& g) { return linalg::matrix_rank(g[0], {}, g.flag("hermitian")); }));
}

void append_composed(std::vector<OpRow>& rows) {
  rows.push_back(row("cholesky_solve", [](const CaseInputs& g) {
    return linalg::cholesky_solve(g[0], g[1], g.flag("upper"));
  }));
  rows.push_back(row("cholesky_inverse",
                     [](const CaseInputs& g) { return linalg::cholesky_inverse(g[0], g.flag("upper")); }));
  rows.push_back(row("vector_norm", [](const CaseInputs& g) {
    return linalg::vector_norm(g[0], std::stod(g.text("order")));
  }));
  rows.push_back(row("matrix_norm", [](const CaseInputs& g) {
    return linalg::matrix_norm(g[0], *order_of(g), g.shape("dims"), g.flag("keepdim"));
  }));
  OpRow norms = row("norm", [](const CaseInputs& g) {
    if (g[0].ndim() == 3) return linalg::norm(g[0]);
    return linalg::norm(g[0], g[0].ndim() == 2 ? 1 : 3);
  });
  rows.push_back(norms);
  rows.push_back(row("cond", [](const CaseInputs& g) { return linalg::cond(g[0], order_of(g)); }));
  rows.push_back(
      row("matrix_power", [](const CaseInputs& g) { return linalg::matrix_power(g[0], g.integer("n")); }));
  rows.push_back(row("multi_dot", [](const CaseInputs& g) {
    for (size_t i = 0; i < g.inputs.size(); ++i) g[i];  // all are required
    return linalg::multi_dot(g.inputs);
  }));
  rows.push_back(row("tensorsolve", [](const CaseInputs& g) { return linalg::tensorsolve(g[0], g[1]); }));
  rows.push_back(row("tensorinv", [](const CaseInputs& g) { return linalg::tensorinv(g[0], 2); }));
  rows.push_back(
      row("cross", [](const CaseInputs& g) { return linalg::cross(g[0], g[1], g.integer("dim")); }));
  rows.push_back(
      row("vecdot", [](const CaseInputs& g) { return linalg::vecdot(g[0], g[1], g.integer("dim")); }));
  rows.push_back(row("vander", [](const CaseInputs& g) {
    return linalg::vander(g[0], g.has("n") ? std::optional(g.integer("n")) : std::nullopt);
  }));
}

}  // namespace

std::vector<OpRow> linalg_rows() {
  std::vector<OpRow> rows;
  append_factorizations(rows);
  append_solves(rows);
  append_composed(rows);
  return rows;
}

}  // namespace tessera::test
