#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

/// Cutting, joining and arranging, made of other functions, with PyTorch's names and arguments. Those on
/// Variables are in autograd/functions/composed/arrangements.h; arrangements.inc has one definition for both.
/// Throw as the functions of which they are made, and where noted.
namespace tessera {

/// i64 (2, n): rows and columns of the elements that `tril`, or `triu`, keeps, in row-major order.
/// @{
Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset = 0);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset = 0);
/// @}
/// Views along `dim`: `sections` of almost equal extents, the first ones larger by 1; or the elements before
/// indices[0], from there to before indices[1], and so on. Throws ValueError for less than one section.
/// @{
std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, std::initializer_list<int64_t> indices, int64_t dim = 0);
/// @}
/// PyTorch's `Tensor.unfold`, as a copy: windows of `size` elements along `dim`, each `step` after the one
/// before; `dim` has one index per window, a new last dimension the elements of one. (`unfold` itself is that
/// of torch.nn.functional.) Throws ShapeError for a size above the extent, ValueError for a step below 1.
Tensor unfold_along(const Tensor& x, int64_t dim, int64_t size, int64_t step);
/// A matrix with the operands (matrices; vectors are rows) on its diagonal and zeros elsewhere.
/// @{
Tensor block_diag(std::span<const Tensor> blocks);
Tensor block_diag(std::initializer_list<Tensor> blocks);
/// @}
/// The rows of all combinations of the elements of vectors, the last one varying fastest: (n1 n2 ..., k); of
/// one vector that vector.
/// @{
Tensor cartesian_prod(std::span<const Tensor> vectors);
Tensor cartesian_prod(std::initializer_list<Tensor> vectors);
/// @}
/// The rows of all choices of r elements of a vector, by rising positions: (n, r).
Tensor combinations(const Tensor& x, int64_t r = 2, bool with_replacement = false);
/// The last dimension as diagonal `offset` of new dimensions `dim1` and `dim2`, with zeros elsewhere.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
/// x with its `diagonal`, its element `index` of `dim`, or its slice, replaced by `source`, which has the
/// shape of what it replaces (ShapeError).
/// @{
Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset = 0, int64_t dim1 = 0,
                        int64_t dim2 = 1);
Tensor select_scatter(const Tensor& x, const Tensor& source, int64_t dim, int64_t index);
Tensor slice_scatter(const Tensor& x, const Tensor& source, int64_t dim, int64_t start, int64_t end,
                     int64_t step = 1);
/// @}
/// x turned by 90 degrees k times in the plane of two dimensions, from the first towards the second. Throws
/// ValueError unless these are two.
Tensor rot90(const Tensor& x, int64_t k = 1, const Shape& dims = {0, 1});
/// `transpose`, by its other name.
Tensor swapaxes(const Tensor& x, int64_t dim0, int64_t dim1);
/// The powers of a vector's elements as columns, (n, columns): falling ones, or rising; without `columns`, n
/// of them.
Tensor vander(const Tensor& x, std::optional<int64_t> columns = {}, bool increasing = false);

}  // namespace tessera
