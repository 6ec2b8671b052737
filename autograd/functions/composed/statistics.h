#pragma once

#include <optional>
#include <string_view>

#include "autograd/variable.h"
#include "tensor/composed/statistics/statistics.h"

/// Statistics of Variables: documented with the functions on Tensors in
/// tensor/composed/statistics/statistics.h, with which they share their definitions. Differentiable to any
/// order.
namespace tessera {

/// The function of this name on Tensors, with its gradients; it throws as that.
/// @{
// clang-format off
Tensor histc(const Variable& x, int64_t bins = 100, double min = 0, double max = 0);
ValuesAndIndices<Variable> cummax(const Variable& x, int64_t dim);
ValuesAndIndices<Variable> cummin(const Variable& x, int64_t dim);
Extremes<Variable> aminmax(const Variable& x, const Shape& dims = {}, bool keepdim = false);
Variable nansum(const Variable& x, const Shape& dims = {}, bool keepdim = false);
Variable nanmean(const Variable& x, const Shape& dims = {}, bool keepdim = false);
Variable nanmedian(const Variable& x);
ValuesAndIndices<Variable> nanmedian(const Variable& x, int64_t dim, bool keepdim = false);
Variable quantile(const Variable& x, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false, std::string_view interpolation = "linear");
Variable quantile(const Variable& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false, std::string_view interpolation = "linear");
Variable nanquantile(const Variable& x, const Tensor& q, std::optional<int64_t> dim = {}, bool keepdim = false, std::string_view interpolation = "linear");
Variable nanquantile(const Variable& x, double q, std::optional<int64_t> dim = {}, bool keepdim = false, std::string_view interpolation = "linear");
ValuesAndIndices<Variable> mode(const Variable& x, int64_t dim = -1, bool keepdim = false);
Variable renorm(const Variable& x, double p, int64_t dim, double maxnorm);
Variable diff(const Variable& x, int64_t n = 1, int64_t dim = -1, const Variable& prepend = {}, const Variable& append = {});
Variable trapezoid(const Variable& y, double dx = 1, int64_t dim = -1);
Variable trapezoid(const Variable& y, const Variable& x, int64_t dim = -1);
Variable cumulative_trapezoid(const Variable& y, double dx = 1, int64_t dim = -1);
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int64_t dim = -1);
Variable cov(const Variable& x, int64_t correction = 1);
Variable corrcoef(const Variable& x);
// clang-format on
/// @}

}  // namespace tessera
