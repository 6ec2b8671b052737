#include "tensor/ops/linalg/solves.h"

#include <array>
#include <cmath>

#include "tensor/batched/rules.h"
#include "tensor/cpu/linalg/factorizations.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/elementwise/unary.h"
#include "tensor/ops/indexing/indexing.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/linalg/matrices.h"
#include "tensor/ops/matmul.h"
#include "tensor/ops/reduction.h"

namespace tessera::linalg {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&, bool, bool, const Tensor&)> triangular_kernel{
    "solve_triangular", &kernels::cpu::solve_triangular, nullptr,
    batched::together<&kernels::cpu::solve_triangular>};

void check_system(const char* where, const Tensor& a, const Tensor& b, bool left) {
  require_square(where, a);
  require_matrices(where, b);
  common_device(where, {&a, &b});
  require_same_dtype(where, {&a, &b});
  require<ShapeError>(b.size(left ? -2 : -1) == a.size(-1), where, ": the matrices ", describe(a), " and ",
                      describe(b), left ? " differ in their rows" : " differ in their columns");
}

/// Both operands with one batch shape.
std::array<Tensor, 2> broadcast_batches(const char* where, const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes(batch_shape(a.shape()), batch_shape(b.shape()), where);
  return {a.expand(joined(batch, {a.size(-2), a.size(-1)})),
          b.expand(joined(batch, {b.size(-2), b.size(-1)}))};
}

Tensor solve_left(const Tensor& given_a, const Tensor& given_b, bool upper, bool unitriangular) {
  const auto [a, b] = broadcast_batches("solve_triangular", given_a, given_b);
  const Device device = common_device("solve_triangular", {&a, &b});
  const Tensor x = Tensor::empty(b.shape(), b.dtype(), device);
  triangular_kernel(device, a, b, upper, unitriangular, x);
  return x;
}

/// The rows `order` (..., n) of b (..., n, k).
Tensor permuted_rows(const Tensor& b, const Tensor& order) {
  const Shape batch = broadcast_shapes(batch_shape(b.shape()), batch_shape(order.shape(), 1), "lu_solve");
  const Shape shape = joined(batch, {b.size(-2), b.size(-1)});
  return ops::gather(b.expand(shape).contiguous(), -2, order.unsqueeze(-1).expand(shape).contiguous());
}

/// 0 .. n - 1 at the positions `order`.
Tensor inverse_order(const Tensor& order) {
  const Tensor numbers =
      ops::arange(0, order.size(-1), 1, i64, order.device()).expand(order.shape()).contiguous();
  return ops::scatter(Tensor::empty(order.shape(), i64, order.device()), -1, order, numbers);
}

/// A^-1 B, or A^-T B, from P L U.
Tensor solve_factored(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool adjoint) {
  const Tensor order = permutation_of(pivots);
  if (!adjoint) return solve_left(lu, solve_left(lu, permuted_rows(b, order), false, true), true, false);
  const Tensor turned = lu.transpose(-2, -1);
  const Tensor y = solve_left(turned, solve_left(turned, b, false, false), true, true);
  return permuted_rows(y, inverse_order(order));
}

/// (-1)^(the number of exchanges), of lu's dtype.
Tensor parity_of(const Tensor& pivots, DType dtype) {
  const Tensor places = ops::arange(1, pivots.size(-1) + 1, 1, i32, pivots.device());
  const Tensor exchanges = ops::sum(ops::cast(ops::not_equal(pivots, places), i64), -1);
  return ops::cast(ops::sub(1, ops::mul(ops::remainder(exchanges, 2), 2)), dtype);
}

Tensor diagonal_of(const Tensor& lu) {
  const int64_t n = lu.size(-1);
  const Shape flat = joined(batch_shape(lu.shape()), {n * n});
  return n == 0 ? lu.reshape(flat) : lu.reshape(flat).slice(-1, 0, n * n, n + 1);
}

}  // namespace

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular) {
  check_system("solve_triangular", a, b, left);
  if (left) return solve_left(a, b, upper, unitriangular);
  return solve_left(a.transpose(-2, -1), b.transpose(-2, -1), !upper, unitriangular)
      .transpose(-2, -1)
      .contiguous();
}

Tensor solve(const Tensor& a, const Tensor& b, bool left) {
  require_square("solve", a);
  common_device("solve", {&b});
  // As in PyTorch: a vector, or a batch of vectors whose shape is that of A without a dimension.
  const bool vectors = b.ndim() == 1 || (b.ndim() + 1 == a.ndim() && b.shape() == batch_shape(a.shape(), 1));
  if (vectors) {
    require<ValueError>(left, "solve: expected matrices where left is false, got ", describe(b));
    return solve(a, b.unsqueeze(-1), true).squeeze(-1);
  }
  check_system("solve", a, b, left);
  const auto [lu, pivots] = lu_factor(a, "solve");
  if (left) return solve_factored(lu, pivots, b, false);
  return solve_factored(lu, pivots, b.transpose(-2, -1), true).transpose(-2, -1).contiguous();
}

Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
  check_system("lu_solve", lu, b, left);
  require<ShapeError>(pivots.shape() == batch_shape(lu.shape(), 1), "lu_solve: expected pivots ",
                      batch_shape(lu.shape(), 1), " for factors ", lu.shape(), ", got ", describe(pivots));
  if (left) return solve_factored(lu, pivots, b, adjoint);
  return solve_factored(lu, pivots, b.transpose(-2, -1), !adjoint).transpose(-2, -1).contiguous();
}

Tensor inv(const Tensor& a) {
  require_square("inv", a);
  const auto [lu, pivots] = lu_factor(a, "inv");
  return solve_factored(lu, pivots, ops::eye(a.size(-1), a.dtype(), a.device()), false);
}

Tensor det(const Tensor& a) {
  require_square("det", a);
  const auto [lu, pivots] = lu_factor(a);
  return ops::mul(ops::prod(diagonal_of(lu), -1), parity_of(pivots, a.dtype()));
}

SlogdetResult<Tensor> slogdet(const Tensor& a) {
  require_square("slogdet", a);
  const auto [lu, pivots] = lu_factor(a);
  const Tensor diagonal = diagonal_of(lu);
  return {ops::mul(ops::prod(ops::sign(diagonal), -1), parity_of(pivots, a.dtype())),
          ops::sum(ops::log(ops::abs(diagonal)), -1)};
}

Tensor matrix_exp(const Tensor& given) {
  require_square("matrix_exp", given);
  if (given.device().is_meta() || given.numel() == 0) return Tensor::empty_like(given);
  const double norm = ops::max(ops::sum(ops::abs(given), -2)).item();
  require<LinAlgError>(std::isfinite(norm), "matrix_exp: expected finite values, got a matrix of norm ",
                       norm);
  constexpr double theta = 5.371920351148152;  // up to this norm the approximation is exact to rounding
  const int squarings = norm > theta ? static_cast<int>(std::ceil(std::log2(norm / theta))) : 0;
  // Pade's coefficients over the first one: b[k] is that of A^k.
  static constexpr double b[] = {64764752532480000.,
                                 32382376266240000.,
                                 7771770303897600.,
                                 1187353796428800.,
                                 129060195264000.,
                                 10559470521600.,
                                 670442572800.,
                                 33522128640.,
                                 1323241920.,
                                 40840800.,
                                 960960.,
                                 16380.,
                                 182.,
                                 1.};
  const auto scaled = [](const Tensor& x, int k) { return ops::mul(x, b[k] / b[0]); };
  const Tensor a = ops::mul(given, std::exp2(-squarings)), one = ops::eye(a.size(-1), a.dtype(), a.device());
  const Tensor a2 = ops::matmul(a, a), a4 = ops::matmul(a2, a2), a6 = ops::matmul(a4, a2);
  const auto even = [&](int k0, int k2, int k4) {
    return ops::add(ops::add(scaled(a2, k0), scaled(a4, k2)), scaled(a6, k4));
  };
  const Tensor u =
      ops::matmul(a, ops::add(ops::add(ops::matmul(a6, even(9, 11, 13)), even(3, 5, 7)), scaled(one, 1)));
  const Tensor v = ops::add(ops::add(ops::matmul(a6, even(8, 10, 12)), even(2, 4, 6)), one);
  Tensor result = solve(ops::sub(v, u), ops::add(v, u));
  for (int i = 0; i < squarings; ++i) result = ops::matmul(result, result);
  return result;
}

}  // namespace tessera::linalg
