#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "autograd/variable.h"

/// Arranging Variables: documented with the functions on Tensors in tensor/composed/shaping/arrangements.h,
/// with which they share their definitions. Differentiable to any order.
namespace tessera {

/// The function of this name on Tensors, with its gradients; it throws as that.
/// @{
// clang-format off
std::vector<Variable> tensor_split(const Variable& x, int64_t sections, int64_t dim = 0);
std::vector<Variable> tensor_split(const Variable& x, std::initializer_list<int64_t> indices, int64_t dim = 0);
Variable unfold_along(const Variable& x, int64_t dim, int64_t size, int64_t step);
Variable block_diag(std::span<const Variable> blocks);
Variable block_diag(std::initializer_list<Variable> blocks);
Variable cartesian_prod(std::span<const Variable> vectors);
Variable cartesian_prod(std::initializer_list<Variable> vectors);
Variable combinations(const Variable& x, int64_t r = 2, bool with_replacement = false);
Variable diag_embed(const Variable& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
Variable diagonal_scatter(const Variable& x, const Variable& source, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Variable select_scatter(const Variable& x, const Variable& source, int64_t dim, int64_t index);
Variable slice_scatter(const Variable& x, const Variable& source, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
Variable rot90(const Variable& x, int64_t k = 1, const Shape& dims = {0, 1});
Variable swapaxes(const Variable& x, int64_t dim0, int64_t dim1);
Variable vander(const Variable& x, std::optional<int64_t> columns = {}, bool increasing = false);
// clang-format on
/// @}

}  // namespace tessera
