#include "tensor/ops/linalg/factorizations.h"

#include <algorithm>

#include "tensor/batched/rules.h"
#include "tensor/cpu/linalg/factorizations.h"
#include "tensor/ops/creation/creation.h"
#include "tensor/ops/elementwise/binary.h"
#include "tensor/ops/elementwise/cast.h"
#include "tensor/ops/kernel.h"
#include "tensor/ops/linalg/matrices.h"
#include "tensor/ops/shaping.h"

namespace tessera::linalg {
namespace {

constexpr Kernel<void(const Tensor&, const Tensor&)> cholesky_kernel{
    "cholesky", &kernels::cpu::cholesky, nullptr, batched::together<&kernels::cpu::cholesky>};
constexpr Kernel<void(const Tensor&, const char*, const Tensor&, const Tensor&)> lu_kernel{
    "lu_factor", &kernels::cpu::lu_factor, nullptr, batched::together<&kernels::cpu::lu_factor>};
constexpr Kernel<void(const Tensor&, const Tensor&)> rows_kernel{
    "pivots_to_rows", &kernels::cpu::pivots_to_rows, nullptr,
    batched::together<&kernels::cpu::pivots_to_rows>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&)> qr_kernel{
    "qr", &kernels::cpu::qr, nullptr, batched::together<&kernels::cpu::qr>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&)> eigh_kernel{
    "eigh", &kernels::cpu::eigh, nullptr, batched::together<&kernels::cpu::eigh>};
constexpr Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&)> svd_kernel{
    "svd", &kernels::cpu::svd, nullptr, batched::together<&kernels::cpu::svd>};

Tensor matrices_like(const Tensor& a, int64_t rows, int64_t columns) {
  return Tensor::empty(joined(batch_shape(a.shape()), {rows, columns}), a.dtype(), a.device());
}
Tensor vectors_like(const Tensor& a, int64_t n, DType dtype) {
  return Tensor::empty(joined(batch_shape(a.shape()), {n}), dtype, a.device());
}

/// The triangle that `uplo` names, below the diagonal.
Tensor lower_triangle(const char* where, const Tensor& a, std::string_view uplo) {
  require_square(where, a);
  require<ValueError>(uplo == "L" || uplo == "U", where, ": expected uplo \"L\" or \"U\", got \"", uplo,
                      "\"");
  return uplo == "U" ? a.transpose(-2, -1) : a;
}

}  // namespace

Tensor cholesky(const Tensor& a, bool upper) {
  require_square("cholesky", a);
  const Tensor result = Tensor::empty(a.shape(), a.dtype(), a.device());
  cholesky_kernel(a.device(), upper ? a.transpose(-2, -1) : a, result);
  return upper ? result.transpose(-2, -1).contiguous() : result;
}

LuFactors<Tensor> lu_factor(const Tensor& a, const char* regular) {
  require_square(regular ? regular : "lu_factor", a);
  LuFactors<Tensor> result{Tensor::empty(a.shape(), a.dtype(), a.device()), vectors_like(a, a.size(-1), i32)};
  lu_kernel(a.device(), a, regular, result.LU, result.pivots);
  return result;
}

Tensor permutation_of(const Tensor& pivots) {
  const Device device = common_device("lu", {&pivots});
  require<DTypeError>(pivots.dtype() == i32, "lu: expected pivots of i32, got ", describe(pivots));
  require<ShapeError>(pivots.ndim() >= 1, "lu: expected pivots (..., n), got ", describe(pivots));
  const Tensor rows = Tensor::empty(pivots.shape(), i64, device);
  rows_kernel(device, pivots, rows);
  return rows;
}

Tensor permutation_matrix(const Tensor& pivots, DType dtype) {
  const Tensor rows = permutation_of(pivots).unsqueeze(-2);  // row j of P^T A is row rows[j] of A
  const int64_t n = rows.size(-1);
  return ops::cast(ops::equal(ops::arange(0, n, 1, i64, pivots.device()).reshape({n, 1}), rows), dtype);
}

LuMatrices<Tensor> lu(const Tensor& a) {
  const auto [factors, pivots] = lu_factor(a);
  return {permutation_matrix(pivots, a.dtype()),
          ops::add(ops::tril(factors, -1), ops::eye(a.size(-1), a.dtype(), a.device())), ops::triu(factors)};
}

QrFactors<Tensor> qr(const Tensor& a, std::string_view mode) {
  require_matrices("qr", a);
  require<ValueError>(mode == "reduced" || mode == "complete" || mode == "r",
                      "qr: expected the mode \"reduced\", \"complete\" or \"r\", got \"", mode, "\"");
  const int64_t m = a.size(-2), n = a.size(-1), k = mode == "complete" ? m : std::min(m, n);
  QrFactors<Tensor> result{mode == "r" ? Tensor() : matrices_like(a, m, k), matrices_like(a, k, n)};
  qr_kernel(a.device(), a, result.Q, result.R);
  if (mode == "r") result.Q = Tensor::empty({0}, a.dtype(), a.device());
  return result;
}

EighResult<Tensor> eigh(const Tensor& a, std::string_view uplo) {
  const Tensor lower = lower_triangle("eigh", a, uplo);
  EighResult<Tensor> result{vectors_like(a, a.size(-1), a.dtype()), matrices_like(a, a.size(-1), a.size(-1))};
  eigh_kernel(a.device(), lower, result.eigenvectors, result.eigenvalues);
  return result;
}

Tensor eigvalsh(const Tensor& a, std::string_view uplo) {
  const Tensor lower = lower_triangle("eigvalsh", a, uplo);
  Tensor values = vectors_like(a, a.size(-1), a.dtype());
  eigh_kernel(a.device(), lower, Tensor(), values);
  return values;
}

SvdResult<Tensor> svd(const Tensor& a, bool full_matrices) {
  require_matrices("svd", a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  SvdResult<Tensor> result{matrices_like(a, m, full_matrices ? m : k), vectors_like(a, k, a.dtype()),
                           matrices_like(a, full_matrices ? n : k, n)};
  svd_kernel(a.device(), a, result.U, result.Vh, result.S);
  return result;
}

Tensor svdvals(const Tensor& a) {
  require_matrices("svdvals", a);
  Tensor values = vectors_like(a, std::min(a.size(-2), a.size(-1)), a.dtype());
  svd_kernel(a.device(), a, Tensor(), Tensor(), values);
  return values;
}

}  // namespace tessera::linalg
