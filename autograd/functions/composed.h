#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "autograd/variable.h"

/// Functions of Variables that are made of other functions: differentiable to any order, documented with
/// those on Tensors in tensor/composed/functions.h, with which they share their definitions.
namespace tessera {

// clang-format off
/// Element by element.
/// @{
Variable fmod(const Variable& a, const Variable& b);
Variable fmod(const Variable& a, const Scalar& b);
Variable logaddexp(const Variable& a, const Variable& b);
Variable nan_to_num(const Variable& x, double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {});
Variable sinh(const Variable& x);
Variable cosh(const Variable& x);
Variable leaky_relu(const Variable& x, double slope = 0.01);
Variable elu(const Variable& x, double alpha = 1);
Variable logsigmoid(const Variable& x);
Variable mish(const Variable& x);
/// @}
/// Along one dimension.
/// @{
Variable cumprod(const Variable& x, int64_t dim);
Variable logcumsumexp(const Variable& x, int64_t dim);
ValuesAndIndices<Variable> kthvalue(const Variable& x, int64_t k, int64_t dim = -1, bool keepdim = false);
/// @}
/// Products and distances.
/// @{
Variable addmm(const Variable& x, const Variable& a, const Variable& b, const Scalar& beta = 1, const Scalar& alpha = 1);
Variable addmv(const Variable& x, const Variable& a, const Variable& b, const Scalar& beta = 1, const Scalar& alpha = 1);
Variable baddbmm(const Variable& x, const Variable& a, const Variable& b, const Scalar& beta = 1, const Scalar& alpha = 1);
Variable einsum(std::string_view equation, std::span<const Variable> operands);
Variable einsum(std::string_view equation, std::initializer_list<Variable> operands);
Variable cdist(const Variable& a, const Variable& b, double p = 2);
Variable cosine_similarity(const Variable& a, const Variable& b, int64_t dim = 1, double epsilon = 1e-8);
Variable normalize(const Variable& x, double p = 2, int64_t dim = 1, double epsilon = 1e-12);
Variable trace(const Variable& x);
/// @}
/// Shapes and places.
/// @{
Variable diagonal(const Variable& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Variable diag(const Variable& x, int64_t diagonal = 0);
Variable movedim(const Variable& x, const Shape& source, const Shape& destination);
Variable unflatten(const Variable& x, int64_t dim, const Shape& sizes);
Variable tile(const Variable& x, const Shape& repeats);
Variable repeat_interleave(const Variable& x, int64_t count, std::optional<int64_t> dim = {});
Variable repeat_interleave(const Variable& x, const Tensor& counts, std::optional<int64_t> dim = {});
std::vector<Variable> meshgrid(std::span<const Variable> axes, std::string_view indexing = "ij");
std::vector<Variable> meshgrid(std::initializer_list<Variable> axes, std::string_view indexing = "ij");
Variable scatter(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value);
Variable index_fill(const Variable& x, int64_t dim, const Tensor& index, const Scalar& value);
/// @}
// clang-format on

}  // namespace tessera
