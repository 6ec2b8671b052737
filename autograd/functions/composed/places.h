#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "autograd/variable.h"
#include "tensor/composed/indexing/places.h"
#include "tensor/index.h"

/// Writing by index: documented with the functions on Tensors in tensor/composed/indexing/places.h, with
/// which they share their definitions. Differentiable to any order.
namespace tessera {

/// The function of this name on Tensors, with its gradients; it throws as that.
/// @{
// clang-format off
Tensor isin(const Variable& x, const Variable& test, bool invert = false);
Tensor unique_consecutive(const Variable& x);
Tensor searchsorted(const Variable& unsorted, const Variable& values, bool right, const Tensor& sorter);
Tensor bucketize(const Variable& values, const Variable& boundaries, bool right = false);
Variable index_put(const Variable& x, std::initializer_list<Index> indices, const Variable& value, bool accumulate = false);
Variable scatter_reduce(const Variable& x, int64_t dim, const Tensor& index, const Variable& source, std::string_view reduction, bool include_self = true);
Variable index_reduce(const Variable& x, int64_t dim, const Tensor& index, const Variable& source, std::string_view reduction, bool include_self = true);
Variable take_along_dim(const Variable& x, const Tensor& index, std::optional<int64_t> dim = {});
// clang-format on
/// @}

}  // namespace tessera
