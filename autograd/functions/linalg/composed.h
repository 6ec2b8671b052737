#pragma once

#include "autograd/functions/linalg/factorizations.h"
#include "autograd/functions/linalg/least_squares.h"
#include "autograd/functions/linalg/solves.h"
#include "tensor/composed/linalg.h"

/// The functions of tensor/composed/linalg.h, differentiable to any order; they share their definitions with
/// those on Tensors.
namespace tessera {

/// As those on Tensors.
/// @{
Variable logdet(const Variable& a);
/// @}

namespace linalg {
// clang-format off
/// As those on Tensors.
/// @{
Variable vector_norm(const Variable& x, double order = 2, const Shape& dims = {}, bool keepdim = false);
Variable matrix_norm(const Variable& a, const MatrixNorm& order = "fro", const Shape& dims = {-2, -1}, bool keepdim = false);
Variable norm(const Variable& x, std::optional<MatrixNorm> order = {}, const Shape& dims = {}, bool keepdim = false);
Variable cond(const Variable& a, std::optional<MatrixNorm> order = {});
Variable matrix_power(const Variable& a, int64_t n);
Variable multi_dot(std::span<const Variable> matrices);
Variable multi_dot(std::initializer_list<Variable> matrices);
Variable cholesky_solve(const Variable& b, const Variable& l, bool upper = false);
Variable cholesky_inverse(const Variable& l, bool upper = false);
Variable tensorsolve(const Variable& a, const Variable& b);
Variable tensorinv(const Variable& a, int64_t ind = 2);
Variable cross(const Variable& a, const Variable& b, int64_t dim = -1);
Variable vecdot(const Variable& a, const Variable& b, int64_t dim = -1);
Variable vander(const Variable& x, std::optional<int64_t> N = {});
// clang-format on
/// @}
/// i64, without a gradient: the ranks of the values.
Tensor matrix_rank(const Variable& a, const RankTolerance& tolerance = {}, bool hermitian = false);

}  // namespace linalg
}  // namespace tessera
